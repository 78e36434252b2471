"""URLs as they may be shown."""


def without_credentials(url: str) -> str:
    """The URL without the user and password before its host, for messages and logs.

    Everything up to the last "@" goes: a password that somebody forgot to quote may hold any sign of a URL.
    """
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else url.rpartition("@")[2]
