"""Every error gputab raises on purpose, by what the caller can do about it.

GputabError
├── InputError          the input is unusable: mend it (exit code 2, HTTP 422)
├── NotFoundError       there is no such thing, or not for this principal (HTTP 404)
├── AccessError         the token is missing, wrong, expired or of the wrong role (HTTP 401 or 403)
├── ConflictError       it contradicts what is already recorded (HTTP 409)
│   └── CapacityError   no device can take it now (HTTP 409); carries the reason per node
└── UnavailableError    a server, program or file cannot be used now: retry or repair (HTTP 503)
    └── EvidenceError   the frozen evidence of one window cannot be used; others can

Messages are one line: "cannot ...", the offending value in quotes, the remedy last.
"""

from collections.abc import Mapping


class GputabError(Exception):
    """Base of all errors that are shown to a person as one line."""


class InputError(GputabError):
    """The input is unusable; nothing of it was written."""


class NotFoundError(GputabError):
    """There is no such thing, or the principal may not know of it."""


class AccessError(GputabError):
    """The token is missing, unknown, expired, or of a role that may not do this."""

    def __init__(self, message: str, *, authenticated: bool) -> None:
        """`authenticated` is true where the token is good but its role is not (403, not 401)."""
        super().__init__(message)
        self.authenticated = authenticated


class ConflictError(GputabError):
    """The request contradicts what is already recorded; nothing was changed."""


class CapacityError(ConflictError):
    """No device can take the request now.

    `reasons` says for each node why not; empty where no node is known at all.
    """

    def __init__(self, message: str, reasons: Mapping[str, str]) -> None:
        super().__init__(message)
        self.reasons = dict(reasons)


class UnavailableError(GputabError):
    """A server, program or file cannot be used now; the same request may succeed later."""


class EvidenceError(UnavailableError):
    """The frozen evidence of one window is gone or is not what was frozen; other windows can still be rated."""
