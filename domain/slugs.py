"""Names that people give to tenants, projects, nodes, books and allocations, and drivers to cards."""

import re

from domain.errors import InputError

_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?")
_MODEL_CHARACTERS_MAX = 128


def check_slug(kind: str, text: str) -> str:
    """The text, if it is a slug: 1-64 of a-z, 0-9, dot, dash, underscore, no sign at either end."""
    if not _SLUG.fullmatch(text):
        raise InputError(
            f"cannot use {text!r} as a {kind}: 1 to 64 of a-z, 0-9, '.', '-', '_', beginning and ending with a "
            "letter or digit"
        )
    return text


def check_name(kind: str, text: str) -> str:
    """The text, if it may name a node, device or allocation: 1-128 letters, digits, and . _ : / - inside."""
    if not _NAME.fullmatch(text):
        raise InputError(
            f"cannot use {text!r} as a {kind}: 1 to 128 letters, digits, '.', '_', ':', '/', '-', beginning and "
            "ending with a letter or digit"
        )
    return text


def check_model(text: str) -> str:
    """The text, if it may be what a driver calls a card: 1-128 printable characters."""
    if not text.isprintable() or not 0 < len(text) <= _MODEL_CHARACTERS_MAX:
        raise InputError(
            f"cannot use {text[:40]!r} as a model: 1 to {_MODEL_CHARACTERS_MAX} printable characters, as the driver "
            "writes it"
        )
    return text
