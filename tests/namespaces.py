"""A program in a namespace of its own, which it may set up as root may, without being root."""

import subprocess
from typing import Literal

import pytest


def apart(kind: Literal["mount", "net"], *set_up: str) -> list[str]:
    """The words before a program's own that let it run in one, as `set_up` leaves it.

    The test that asks is skipped where a user may not have one, or the set-up is not allowed in it. `set_up` are the
    words of a program that runs those behind it.
    """
    words = ["unshare", "--map-root-user", f"--{kind}", *set_up]
    try:
        asked = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"needs a {kind} namespace: {error}")
    if asked.returncode:
        pytest.skip(f"needs a {kind} namespace: {asked.stderr.strip()}")
    return words
