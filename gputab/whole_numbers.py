"""Options that count: whole numbers in plain digits, within their bounds."""

from typing import Any

import typer

from domain.errors import InputError
from domain.written_numbers import parse_whole


def whole_option(help: str, *, least: int = 1, most: int | None = None) -> Any:  # noqa: A002 - typer's own name
    """A typer option for a whole number, `least` or more, and `most` or less if that is given.

    typer's own reading of `int` takes "1_0" for 10, and blanks, signs and "5.0" as well.
    """

    bounds = f"{least} or more" if most is None else f"{least} to {most}"

    def read(text: object) -> int:
        try:
            number = parse_whole(str(text))
        except InputError as error:
            raise typer.BadParameter(str(error)) from error
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f"cannot use {number}: write {bounds}")
        return number

    return typer.Option(help=f"{help} [{bounds}]", parser=read, metavar="NUMBER")
