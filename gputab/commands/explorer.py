"""`gputab explorer`: what was spent, by day, in a browser."""

import errno
import os
import socket
from typing import Annotated

from domain.errors import UnavailableError
from gputab import composition, ledger
from gputab.output import say
from gputab.whole_numbers import whole_option
from streamlit_app import launcher


def explorer(
    port: Annotated[int, whole_option("the port to listen on", least=1, most=65_535)] = 8501,
) -> None:
    """Show spend by tenant and billing day in a browser.

    It runs until it is stopped, on this machine's loopback only: for others put a proxy with TLS before it.
    """
    with ledger.open_database(composition.settings()):
        _refuse_taken(port)
    say(f"explorer: http://{launcher.ADDRESS}:{port}; log in with a token of role tenant, billing or operator")
    command = launcher.command(port)
    # It takes this process's place, so that signals and exit codes are its own.
    os.execv(command[0], command)  # noqa: S606 - a list without a shell, of this very interpreter


def _refuse_taken(port: int) -> None:
    """Raise UnavailableError for a port that somebody listens on; Streamlit would say it after its greeting."""
    with socket.socket() as listener:
        # What is left of the connections of an explorer that just ended is not in the way.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((launcher.ADDRESS, port))
        except OSError as error:
            reason = "in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise UnavailableError(
                f"cannot listen on {launcher.ADDRESS}:{port}: {reason}; give another --port"
            ) from error
