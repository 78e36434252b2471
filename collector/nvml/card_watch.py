"""When it is looked which cards there are: every 5 s, and where somebody finds that something has changed."""

import threading
from collections.abc import Callable

import structlog

from collector.nvml.driver_life import DriverAwayError
from collector.nvml.known_cards import KnownCards
from collector.nvml.node_map import NodeMap
from collector.source import SourceGoneError
from domain.errors import UnavailableError

_LOOK_SECONDS = 5.0
# However often something changes.
_REST_SECONDS = 0.2

log = structlog.get_logger()


class CardWatch:
    """Looks at the cards, and once a minute at the ways between them; `run` is for one thread."""

    def __init__(self, known: KnownCards, ways: NodeMap, now_s: Callable[[], float]) -> None:
        """`now_s` is a monotonic clock."""
        self._known = known
        self._ways = ways
        self._now_s = now_s
        self._is_wanted = threading.Event()
        self._is_unreadable = False
        self.looked = threading.Event()
        """Set once a look is over."""
        self.changed = threading.Event()
        """Set where another inventory than before was found."""

    def look_soon(self) -> None:
        """Let the next look be now. Whoever sets `stop` calls it too, so that `run` ends at once."""
        self._is_wanted.set()

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set."""
        before = self._known.devices
        while not stop.is_set():
            self._is_wanted.wait(_LOOK_SECONDS)
            self._is_wanted.clear()
            if stop.is_set():
                return
            self._look()
            self.looked.set()
            if self._known.devices != before:
                before = self._known.devices
                self.changed.set()
            self._ways.look(self._now_s())
            stop.wait(_REST_SECONDS)

    def _look(self) -> None:
        try:
            self._known.look()
        except (DriverAwayError, SourceGoneError):
            pass  # whoever tends the driver has said so
        except UnavailableError as error:
            if not self._is_unreadable:
                log.warning("inventory_unreadable", reason=str(error))
            self._is_unreadable = True
        else:
            self._is_unreadable = False
