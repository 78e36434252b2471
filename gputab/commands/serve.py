"""`gputab allocator`: the allocator service, until it is stopped."""

import errno
import socket
from contextlib import suppress
from functools import partial
from typing import Annotated

import typer
import uvicorn

from allocator.service import create_app
from domain.capacity import ShareGrain
from domain.errors import UnavailableError
from domain.units import MIB
from domain.urls import is_loopback
from gputab import composition, ledger
from gputab.output import say
from gputab.whole_numbers import whole_option
from settings.gputab import Settings
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher

# Longer than any client of ours keeps an idle connection, so that none is closed just when it is used again.
_KEEP_ALIVE_S = 75


def serve(
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, whole_option("the port; 0: any free one", least=0, most=65_535)] = 8470,
) -> None:
    """Serve the allocator's HTTP interface on the ledger."""
    config = composition.settings()
    store = composition.sample_store(config)
    composition.log_to_stderr()
    if not is_loopback(host):
        say(f"warning: listening on {host}, without encryption: put a TLS proxy before it, or use 127.0.0.1")
    with (
        _listen(host, port) as listener,
        ledger.open_database(config) as database,
        Pusher(store) as pusher,
    ):
        app = create_app(
            database,
            skus=composition.sku_table(config),
            share_grain=_share_grain(config),
            sink=pusher,
            check_store=partial(check_flags, store),
        )
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                host=host,
                port=listener.getsockname()[1],
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
            )
        )
        # uvicorn names the address only where it has taken it itself.
        shown = f"[{host}]" if ":" in host else host
        say(f"listening on http://{shown}:{listener.getsockname()[1]}")
        # The way to stop a service at a terminal, which it has heeded by then.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    if not server.started:
        raise UnavailableError("cannot start the allocator: its log above says why")


def _listen(host: str, port: int) -> socket.socket:
    """The socket of the service, taken before anything else is begun; UnavailableError where it is not to be had."""
    try:
        # It names the protocol, without which asyncio leaves Nagle's algorithm on and each answer waits 40 ms.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            # What is left of connections of a service that just ended is not in the way.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UnavailableError(f"cannot listen on {host}:{port}: in use; give --port") from error
        raise UnavailableError(f"cannot listen on {host}:{port}: {error.strerror}; give --host or --port") from error
    return listener


def _share_grain(config: Settings) -> ShareGrain | None:
    if config.share_min_milli == 0:
        return None
    return ShareGrain(config.share_min_milli, config.share_min_vram_mib * MIB)
