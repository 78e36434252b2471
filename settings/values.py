"""Which values a setting takes; what others would mean is not for us to guess.

A message never repeats a URL or a token: either may be a secret.
"""

import re
from pathlib import Path
from typing import Annotated, Any

import httpx
from pydantic import AfterValidator, BeforeValidator, SecretStr

from domain.errors import InputError
from domain.slugs import check_name
from domain.urls import is_loopback
from domain.written_numbers import parse_whole

# RFC 1035, 2.3.4: what a resolver can be asked for. Underscores are not for hosts, but container networks use them.
_HOST = re.compile(r"(?=.{1,253}\.?$)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_PORT_MAX = 65_535


def check_text(value: Any) -> Any:
    """The value, unless it is text that no file name, database or header can hold."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("write it in UTF-8") from error
        if "\0" in value:
            raise ValueError("leave out the zero byte")
    return value


def _whole(value: object) -> object:
    if isinstance(value, str):
        try:
            parse_whole(value)
        except InputError as error:
            raise ValueError(str(error)) from error
    # A float is no count, and to Python `true` is 1.
    elif not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("write a whole number, such as 30")
    return value


def _local_path(value: object) -> object:
    if value == "":
        raise ValueError("write a path, or leave the setting out")
    if isinstance(value, str) and "://" in value:
        raise ValueError("write a path: only files and folders of this machine are supported so far, no URL")
    return value


def _server_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("write a URL that begins with http:// or https://")
    if not _names_a_server(url):
        raise ValueError(
            "write a URL such as http://127.0.0.1:8428, with '%40' for an '@' in a password, '%2F' for a '/', '%3F' "
            "for a '?' and '%23' for a '#'"
        )
    return url.rstrip("/")


def _names_a_server(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError):
        return False
    is_address = ":" in host  # of IPv6, which the library has read
    has_port = parsed.port is None or 0 < parsed.port <= _PORT_MAX
    # What a password has left after a "?" or "#" would be sent to whatever host stands before it.
    is_whole = not parsed.query and not parsed.fragment
    return (is_address or _HOST.fullmatch(host) is not None) and has_port and is_whole


def _token(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("write it as `gputab token create` printed it: letters, digits, '-' and '_'")
    return token


def check_token_goes_to(url: str) -> None:
    """Raise ValueError where a bearer token for the server at `url` could be read on its way, or would not be sent."""
    parsed = httpx.URL(url)
    if parsed.scheme == "http" and not is_loopback(parsed.host):
        raise ValueError("a token is sent in plain text over http: let 'victoriametrics_url' begin with https://")
    if parsed.userinfo:
        raise ValueError("either a token or the user and password of 'victoriametrics_url': leave one of them out")


def _node(node: str) -> str:
    try:
        return check_name("node", node)
    except InputError as error:
        raise ValueError(str(error)) from error


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number: plain digits in text, an integer in TOML."""

LocalPath = Annotated[Path, BeforeValidator(_local_path)]
"""A path of this machine; relative ones start from the working directory."""

ServerUrl = Annotated[str, AfterValidator(_server_url)]
"""An http or https URL that a client can call, without query, fragment and trailing slash."""

Token = Annotated[SecretStr, AfterValidator(_token)]
"""A bearer token, which travels in a header; empty is none."""

NodeName = Annotated[str, AfterValidator(_node)]
"""The name of a node."""
