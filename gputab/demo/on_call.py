"""The demo's on-call: is shown every page as it comes, and knows which pages had to come."""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from types import TracebackType
from typing import Self

from rich.panel import Panel

from alerts.page_text import draw
from alerts.pager import Page, Pager
from alerts.readings import StoredReadings
from alerts.receiver import Receiver
from alerts.verdicts import Standing, Verdict
from alerts.watermark_rules import Patience
from collector.simulation.fleet import SimulatedCard
from collector.simulation.world import World
from domain.clock import Clock
from domain.watermarks import WATERMARKS

# The shipped rules, for people who will not watch for minutes.
PATIENCE = Patience(for_s=5, keep_firing_s=5, evaluation_s=1)
# From the crossing to the page, on a busy machine: a reading is seen after 3 s and has to stand for 5 s.
_PAGE_WITHIN_S = 20
_HIGHEST = max(WATERMARKS, key=lambda mark: mark.used_ratio)
_CRITICAL = Standing(Verdict.FIRING, _HIGHEST.level)


class OnCall:
    """Whoever the demo's Alertmanager pages, over a webhook on loopback; until the `with` block ends."""

    def __init__(
        self, victoriametrics_url: str, clock: Clock, show: Callable[[Panel], None], complain: Callable[[str], None]
    ) -> None:
        """`show` is given each page, from other threads; `complain` a line for each notification that was refused."""
        self.pages: list[Page] = []
        self._show = show
        self._open = ExitStack()
        readings = self._open.enter_context(StoredReadings(victoriametrics_url, clock))
        receiver = Receiver(Pager(self._take, readings, clock), port=0, complain=complain)
        # What Alertmanager is to call.
        self.url = self._open.enter_context(receiver).url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def _take(self, page: Page) -> None:
        self._show(draw(page))
        self.pages.append(page)

    def summary(self) -> str:
        """What came, in one line."""
        if not self.pages:
            return "on-call was not paged"
        counts = [f"{sum(page.now.verdict is verdict for page in self.pages)} {verdict.value}" for verdict in Verdict]
        return f"on-call was paged {len(self.pages)} times: {', '.join(counts)}"

    def missed(self, world: World | None, until_s: int) -> list[str]:
        """What on-call was not told of: cards that were above the highest watermark for long enough before `until_s`.

        By the simulator's own record; of real cards, where `world` is None, nothing is known.
        """
        if world is None:
            return []
        told = {page.card[1:] for page in self.pages if page.card and page.now == _CRITICAL}
        return [
            f"{card.node}/{card.device.index} was above {_HIGHEST.used_ratio:.0%} of its VRAM and on-call was not paged"
            for gpu_uuid, mig_uuid in sorted({(each.gpu_uuid, each.mig_uuid or "") for each in world.tenancies})
            for card in [world.fleet.cards[gpu_uuid]]
            if (gpu_uuid, mig_uuid) not in told and _is_overfull(world, card, mig_uuid or None, until_s)
        ]


def _is_overfull(world: World, card: SimulatedCard, mig_uuid: str | None, until_s: int) -> bool:
    """Whether the card or MIG instance has a stretch above the highest watermark that had to bring a page."""
    usable_bytes = next((each.vram_bytes for each in card.device.instances if each.uuid == mig_uuid), card.usable_bytes)
    uuid = card.device.uuid
    is_above = (
        not world.is_lost(uuid, second_s)
        and world.used_bytes(uuid, mig_uuid, None, second_s) >= _HIGHEST.used_ratio * usable_bytes
        for second_s in range(world.started_s, until_s)
    )
    return any(above and sum(1 for _ in stretch) >= _PAGE_WITHIN_S for above, stretch in groupby(is_above))
