"""Where evidence may be kept: a folder of this machine, or a bucket."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

# A bucket, as Amazon and the servers that came before it name them, and folders in it. No "@" or "?": what stands
# before or behind one would be credentials or options, which are given in another way.
_URL = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9](?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._=-]+)*/?")


def _place(value: object) -> Path | str:
    if value == "":
        raise ValueError("write a path, or leave the setting out")
    if isinstance(value, Path):
        return value
    if isinstance(value, str) and "://" not in value:
        return Path(value)
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise ValueError(
            "write a path, or a URL such as s3://bucket/gputab, with letters, digits, '.', '_', '=' and '-' in its "
            "folders; server and credentials are given by the variables AWS_*"
        )
    return value.rstrip("/")


EvidencePlace = Annotated[Path | str, BeforeValidator(_place)]
"""A `Path` of this machine, or a text s3://BUCKET/PREFIX without a slash at its end."""
