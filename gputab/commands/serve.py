"""`gputab allocator`: the allocator service, until it is stopped."""

from ipaddress import ip_address
from typing import Annotated

import typer
import uvicorn

from allocator.service import create_app
from domain.capacity import ShareGrain
from domain.units import MIB
from gputab import composition
from gputab.output import say
from settings.gputab import Settings
from victoriametrics.push import Pusher


def serve(
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port; 0: any free one")] = 8470,
) -> None:
    """Serve the allocator's HTTP interface on the ledger."""
    config = composition.settings()
    composition.log_to_stderr()
    if not _is_loopback(host):
        say(f"warning: listening on {host}, without encryption: put a TLS proxy before it, or use 127.0.0.1")
    with (
        composition.open_database(config) as database,
        Pusher(config.victoriametrics_url) as pusher,
    ):
        app = create_app(
            database,
            skus=composition.sku_table(config),
            share_grain=_share_grain(config),
            sink=pusher,
        )
        uvicorn.run(app, host=host, port=port, access_log=False, server_header=False)


def _share_grain(config: Settings) -> ShareGrain | None:
    if config.share_min_milli == 0:
        return None
    return ShareGrain(config.share_min_milli, config.share_min_vram_mib * MIB)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
