"""Numbers as people write them. What other notations would mean is not for us to guess."""

import re

from domain.errors import InputError

# Python's own `int` also takes "1_000", digits of other scripts, blanks around and as many digits as there are.
_WHOLE = re.compile("-?[0-9]{1,18}")


def parse_whole(text: str) -> int:
    """The whole number that the text writes in plain digits, with a minus where it is below 0; it fits a BIGINT.

    Raises InputError for every other text. Bounds are the caller's.
    """
    if not _WHOLE.fullmatch(text):
        raise InputError(f"cannot read {text[:40]!r} as a whole number: write at most 18 digits, such as 30")
    return int(text)
