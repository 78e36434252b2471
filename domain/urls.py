"""URLs as they may be shown, and whether what they name is this machine."""

from ipaddress import ip_address


def without_credentials(url: str) -> str:
    """The URL without the user and password before its host, for messages and logs.

    Everything up to the last "@" goes: a password that somebody forgot to quote may hold any sign of a URL.
    """
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else url.rpartition("@")[2]


def is_loopback(host: str) -> bool:
    """Whether a host or address is this machine whatever network it is on: localhost, 127.0.0.0/8, ::1."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
