"""Where a host engine is reached: a host with a port, or a socket in the file system."""

import re
from typing import NamedTuple

from domain.errors import InputError

# Of nv-hostengine (dcgm_structs.h, DCGM_HE_PORT_NUMBER).
_PORT = 5555
_UNIX = "unix://"
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?", re.ASCII)


class EngineAddress(NamedTuple):
    """One of `host` and `socket`: `127.0.0.1:5555`, or the path of a socket."""

    host: str | None
    socket: str | None

    @property
    def url(self) -> str:
        """The address as DCGM writes one, which is also how it is shown."""
        return f"tcp://{self.host}" if self.host else f"{_UNIX}{self.socket}"


def engine_address(text: str) -> EngineAddress:
    """The address that a person writes: HOST, HOST:PORT, unix:///PATH or /PATH. Raises InputError."""
    path = text.removeprefix(_UNIX)
    if path.startswith("/") and path.strip("/"):
        return EngineAddress(None, path)
    found = _HOST.fullmatch(text)
    if found is None or int(found[2] or _PORT) not in range(1, 65_536):
        raise InputError(
            f"cannot use {text!r} as the address of a DCGM host engine; write a host such as 127.0.0.1:5555, or a "
            "socket such as unix:///run/nvidia-dcgm.sock"
        )
    return EngineAddress(f"{found[1]}:{found[2] or _PORT}", None)
