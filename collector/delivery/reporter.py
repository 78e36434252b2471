"""Keeps the allocator informed: the node's inventory, by way of the queue on disk, and a heartbeat."""

import json
from dataclasses import asdict
from threading import Event

import structlog

from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from collector.source import Source, SourceGoneError
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.inventory import Device, Inventory

_LOOK_SECONDS = 5.0
_GLANCE_SECONDS = 0.25
_REPEAT_SECONDS = 60
_BEAT_SECONDS = 2

log = structlog.get_logger()


class InventoryReporter:
    """Looks at the cards every 5 s, reports a change at once and the unchanged inventory every minute.

    It has two threads of its own, since a driver that hangs in an inventory must not stop the sampling of the other
    cards, nor a service that hangs the looking. Reports wait in the queue with the second of their observation until
    the service takes them.
    """

    def __init__(
        self,
        source: Source,
        node: str,
        queue: BatchQueue,
        clock: Clock,
        service: NodeService | None,
        changed: Event | None = None,
    ) -> None:
        """Takes the first inventory: UnavailableError where the driver gives none. Without a service: no reports.

        `changed` is set by a source that knows of a change itself, which is then looked at without delay.
        """
        self._source = source
        self._node = node
        self._queue = queue
        self._clock = clock
        self._service = service
        self._changed = changed or Event()
        self._arrived = Event()
        self._reported_at_s: float | None = None
        self._is_failing = False
        self.devices: tuple[Device, ...] = ()
        self.look()

    def run(self, stop: Event) -> None:
        """Look until `stop` is set, and queue what is to be reported."""
        while not stop.is_set():
            self._wait(self._changed, stop)
            if not stop.is_set():
                self._look_again()

    def send(self, stop: Event) -> None:
        """Deliver reports until `stop` is set: each at once, or when the service is back."""
        while not stop.is_set():
            self.deliver()
            self._wait(self._arrived, stop)

    def look(self) -> None:
        """Read the inventory, and queue a report if it has changed or the last is a minute old."""
        second_s = self._clock.now_us() // MICROSECONDS
        devices = self._source.inventory()
        # Not by the wall clock, which may be set back.
        monotonic_s = self._clock.monotonic_s()
        is_change = devices != self.devices or self._reported_at_s is None
        is_due = self._reported_at_s is None or monotonic_s - self._reported_at_s >= _REPEAT_SECONDS
        self.devices = devices
        if self._service is None or not (is_change or is_due):
            return
        body = json.dumps(asdict(Inventory(second_s, devices)), separators=(",", ":")).encode()
        self._queue.reports.put(body, is_repeat=not is_change)
        self._reported_at_s = monotonic_s
        self._arrived.set()

    def deliver(self) -> None:
        """Send what waits, oldest first, until the service does not take it."""
        while self._service is not None and (waiting := self._queue.reports.first()) is not None:
            try:
                self._service.put_inventory(waiting.body)
            except InputError as error:
                log.error("inventory_refused", node=self._node, error=str(error))
            except UnavailableError as error:
                if not self._is_failing:
                    log.warning("allocator_unavailable", node=self._node, error=str(error))
                self._is_failing = True
                return
            self._queue.reports.delete(waiting.report)
            if self._is_failing:
                log.info("allocator_available", node=self._node)
            self._is_failing = False

    def _wait(self, event: Event, stop: Event) -> None:
        """Wait for some seconds, or until the event, which is over then."""
        until_s = self._clock.monotonic_s() + _LOOK_SECONDS
        while not (event.is_set() or self._clock.monotonic_s() >= until_s):
            if stop.wait(_GLANCE_SECONDS):
                return
        event.clear()

    def _look_again(self) -> None:
        try:
            self.look()
        except (SourceGoneError, QueueDamagedError):
            raise
        except UnavailableError as error:
            log.warning("inventory_unreadable", node=self._node, error=str(error))


class Heartbeat:
    """Says every 2 s that the node is alive, and learns how far the service's clock is ahead of its own."""

    def __init__(self, node: str, clock: Clock, service: NodeService) -> None:
        self._node = node
        self._clock = clock
        self._service = service
        self._is_failing = False
        self.skew_us: int | None = None

    def run(self, stop: Event) -> None:
        """Beat until `stop` is set."""
        while not stop.is_set():
            self.beat()
            stop.wait(_BEAT_SECONDS)

    def beat(self) -> None:
        """One heartbeat. The skew counts from the middle of the call and is None while the service is away."""
        sent_us = self._clock.now_us()
        try:
            service_us = self._service.beat()
        except (InputError, UnavailableError) as error:
            if not self._is_failing:
                log.warning("heartbeat_failed", node=self._node, error=str(error))
            self._is_failing = True
            self.skew_us = None
            return
        self.skew_us = service_us - (sent_us + self._clock.now_us()) // 2
        if self._is_failing:
            log.info("heartbeat_taken", node=self._node)
        self._is_failing = False
