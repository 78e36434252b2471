"""Cards whose use of VRAM a test sets, or that it loses, pushed each second by a thread until they are to be silent."""

import threading
from collections.abc import Iterator
from contextlib import suppress

from domain.clock import MICROSECONDS, SystemClock
from domain.errors import UnavailableError
from domain.samples import SampleRun
from domain.series import GPU_INFO, GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_UP, GRANT_INFO, Series
from domain.units import GIB
from victoriametrics.push import Pusher

NODE = "gpu-7"
TENANT = "acme"
USABLE_BYTES = 100 * GIB
RESERVED_BYTES = 1 * GIB


class Fleet:
    """Cards of 100 GiB, by name, each with the percent of it that is used; None is a card that is silent.

    One of `lost` says so, and nothing more.
    """

    def __init__(self, victoriametrics_url: str) -> None:
        self._url = victoriametrics_url
        self.percent: dict[str, int | None] = {}
        self.lost: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        clock = SystemClock()
        with Pusher(self._url) as pusher:
            while not self._stop.wait(1 - clock.now_us() % MICROSECONDS / MICROSECONDS):
                # A store that a test has killed is away for a while.
                with suppress(UnavailableError):
                    pusher.send(self._runs(clock.now_us() // MICROSECONDS))
                    pusher.flush()

    def _runs(self, second_s: int) -> Iterator[SampleRun]:
        for number, (card, percent) in enumerate(list(self.percent.items())):
            where = {"node": NODE, "gpu_uuid": card}
            grant = {"gpu_uuid": card, "allocation": f"job-{number}", "tenant": TENANT, "kind": "whole"}
            yield _one(GRANT_INFO, grant, second_s, 1)
            if percent is None:
                continue
            yield _one(GPU_UP, where, second_s, int(card not in self.lost))
            yield _one(GPU_INFO, {**where, "index": str(number), "model": "NVIDIA H200"}, second_s, 1)
            if card in self.lost:
                continue
            yield _one(GPU_MEMORY_TOTAL, where, second_s, USABLE_BYTES + RESERVED_BYTES)
            yield _one(GPU_MEMORY_RESERVED, where, second_s, RESERVED_BYTES)
            yield _one(GPU_MEMORY_USED, where, second_s, USABLE_BYTES * percent // 100)


def _one(series: Series, labels: dict[str, str], second_s: int, value: int) -> SampleRun:
    return SampleRun(series, labels, (second_s,), (value,))
