"""The fake host engine as its own process would be: it goes on by the real clock while its clients come and are killed.

Its file says which cards it has and since when it watches what; all that it has read since, and keeps, follows from
that. So whoever opens the file finds what a real engine would have for him.
"""

import json
from collections.abc import Collection
from pathlib import Path

from collector.dcgm.host_engine import Entity, EntityGroup
from domain.clock import SystemClock
from tests.fakes.clock import SettableClock
from tests.fakes.dcgm import FakeHostEngine, card

_CLOCK = SystemClock()


class LastingEngine(FakeHostEngine):
    """The engine of a file. Of several that are open at once the last to watch is the one that is remembered."""

    def __init__(self, path: Path) -> None:
        """`path` is of `create`."""
        self._path = path
        first, *watches = [json.loads(line) for line in path.read_text().splitlines()]
        machine = [card(number, gpu_uuid=uuid) for number, uuid in enumerate(first["gpu_uuids"])]
        super().__init__(SettableClock(first["at_us"]), machine)
        for each in watches:
            self.advance_s((each["at_us"] - self.clock.now_us()) / 1_000_000)
            entities = [Entity(EntityGroup(group), number) for group, number in each["entities"]]
            super().watch(entities, each["fields"], each["period_us"], each["keep_s"])

    @staticmethod
    def create(path: Path, *gpu_uuids: str) -> None:
        """An engine with these cards, which watches nothing yet."""
        path.write_text(json.dumps({"at_us": _CLOCK.now_us(), "gpu_uuids": gpu_uuids}) + "\n")

    def check(self, generation: int | None = None) -> None:
        """Whatever it is asked, it has gone on until now."""
        self.advance_s(max(0, _CLOCK.now_us() - self.clock.now_us()) / 1_000_000)
        super().check(generation)

    def watch(self, entities: Collection[Entity], fields: Collection[int], period_us: int, keep_s: float) -> None:
        """As any of its clients may; it is remembered, and to watch the same again changes nothing."""
        super().watch(entities, fields, period_us, keep_s)
        what = {"entities": list(entities), "fields": list(fields), "period_us": period_us, "keep_s": keep_s}
        with self._path.open("a") as file:
            file.write(json.dumps({"at_us": self.clock.now_us(), **what}) + "\n")
