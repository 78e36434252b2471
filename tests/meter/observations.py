"""Sample stores that do not behave: one that is down, and one in front of which something else happens."""

from collections.abc import Callable
from typing import Any

import polars as pl

from domain.errors import UnavailableError
from meter.evidence.observations import Observations


class Down:
    """A store that answers nothing, or nothing after its mark."""

    def __init__(self, complete_until_s: int | None = None) -> None:
        self._complete_until_s = complete_until_s

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        raise UnavailableError(f"cannot read samples of {node!r}: the store does not answer")

    def complete_until_s(self, node: str) -> int | None:
        if self._complete_until_s is None:
            raise UnavailableError(f"cannot query samples of {node!r}: the store does not answer")
        return self._complete_until_s

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        raise UnavailableError(f"cannot query samples of {node!r}: the store does not answer")


class Meanwhile:
    """Observations during whose reading something else happens, once."""

    def __init__(self, inner: Observations, happens: Callable[[], Any]) -> None:
        self._inner = inner
        self._happens: Callable[[], Any] | None = happens

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        frame = self._inner.samples(node, start_s, end_s)
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        return frame

    def complete_until_s(self, node: str) -> int | None:
        return self._inner.complete_until_s(node)

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        return self._inner.clock_skew_s(node, start_s, end_s)
