"""What is wrong with a file, all of it together."""

from domain.errors import InputError

SHOWN = 20


class Problems:
    """Collects what is wrong with the lines of one file, so that a person mends it in one pass."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, line: int, problem: str) -> None:
        """Note a problem; only the first 20 are kept in words."""
        self._count += 1
        if len(self._shown) < SHOWN:
            self._shown.append(f"line {line}: {problem}")

    def raise_any(self) -> None:
        """Raise InputError if anything was wrong, in one line."""
        if self._count:
            rest = f"; and {self._count - SHOWN} more" if self._count > SHOWN else ""
            raise InputError(f"cannot import the records, nothing was written: {'; '.join(self._shown)}{rest}")
