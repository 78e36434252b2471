"""How the cards of a node reach each other, looked up once a minute."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from collector.nvml.driver_life import DriverAwayError, DriverLife
from collector.nvml.known_cards import KnownCard
from collector.nvml.topology import TopologyLink, topology
from collector.own_metrics import OwnValue
from collector.source import SourceGoneError
from collector.workers import Workers
from domain.series import GPU_TOPOLOGY_LINK

_LOOK_SECONDS = 60.0
# It is some hundreds of calls; one that hangs leaves the map as it was.
_PATIENCE_SECONDS = 2.0


class NodeMap:
    """The ways between the cards; `look` is for one thread, what it found may be read by any."""

    def __init__(self, life: DriverLife, cards: Callable[[], tuple[KnownCard, ...]]) -> None:
        """`cards` are those of the node as they are known now."""
        self._life = life
        self._cards = cards
        self._lookers: Workers[str, None, tuple[TopologyLink, ...]] = Workers(lambda *_: self._ask(), "topology of")
        self._looked_at_s: float | None = None
        self._links: tuple[TopologyLink, ...] = ()

    def look(self, now_s: float) -> None:
        """Ask the driver where the last time was a minute ago; `now_s` is the monotonic clock's."""
        if self._looked_at_s is not None and now_s - self._looked_at_s < _LOOK_SECONDS:
            return
        self._looked_at_s = now_s
        told = self._lookers.ask_all({"the node": None}, _PATIENCE_SECONDS)
        for failure in told.failures.values():
            if not isinstance(failure, DriverAwayError | SourceGoneError):
                raise failure
        for links in told.answers.values():
            self._links = links

    def values(self) -> Iterator[OwnValue]:
        """Each pair of cards, in both directions, with the NVLinks between them."""
        for link in self._links:
            labels = {
                "gpu_uuid": link.gpu_uuid,
                "peer": link.peer_uuid,
                "level": link.level,
                "peer_access": link.peer_access,
            }
            yield OwnValue(GPU_TOPOLOGY_LINK, link.links, labels)

    def close(self) -> None:
        """End the thread that looks."""
        self._lookers.close()

    def _ask(self) -> tuple[TopologyLink, ...]:
        with self._life.use("the topology") as opened:
            here: Mapping[str, Any] = {
                card.device.uuid: card.handle
                for card in self._cards()
                if card.opening == opened.opening and not card.is_lost
            }
            return tuple(topology(opened.driver, here))
