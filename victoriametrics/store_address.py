"""Where a VictoriaMetrics is, and by what it knows who asks."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from domain.errors import UnavailableError
from domain.urls import is_loopback


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """One server, as every client of it is told.

    `url` has no trailing slash and may hold a user and password. `token` travels as a bearer token; None is none.
    `ca_file` is a PEM file of the certificates that the server's must descend from; None is what the system trusts.
    Neither `url` nor `token` shows when this is printed.
    """

    url: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    @classmethod
    def of(cls, address: "StoreAddress | str") -> "StoreAddress":
        """The address; a plain URL is one without a token, trusted as the system trusts."""
        return cls(address) if isinstance(address, str) else address

    @property
    def is_loopback(self) -> bool:
        """Whether what is sent there stays on this machine."""
        try:
            return is_loopback(urlsplit(self.url).hostname or "")
        except ValueError:  # a host that is none
            return False

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def tls_context(self) -> ssl.SSLContext:
        """What a client checks the server's certificate by. Raises UnavailableError where `ca_file` is of no use."""
        if not self.url.startswith("https://"):
            # Nothing is encrypted then, and to read what the system trusts takes 20 ms.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # what OpenSSL says is one, too
            raise UnavailableError(
                f"cannot use the certificates in {str(self.ca_file)!r}: {error}; check 'victoriametrics_ca_file'"
            ) from error
