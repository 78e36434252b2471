"""XID errors as the driver tells them: one thread waits for its events."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event
from typing import Any

import structlog

from collector.nvml.driver import NO_INSTANCE, DriverError
from collector.nvml.driver_life import DriverAwayError, DriverLife, Opened
from collector.nvml.known_cards import KnownCard
from collector.nvml.mig import address_of
from collector.source import SourceGoneError
from collector.xid_events import Xid, XidEvents, XidSource
from domain.samples import FieldState

# NVML_EVENT_TYPE_XID_CRITICAL_ERROR.
_XID = 0x8
# As long as the driver cannot be let go of; the whole of it is to take less than a second.
_WAIT_MS = 250
_AGAIN_SECONDS = 1.0
_EARLY_SECONDS = 0.05
# A card that fails to be listened to is tried again after so long.
_REGISTER_AGAIN_SECONDS = 10.0

log = structlog.get_logger()


class XidWatch:
    """Listens to the driver for as long as it is open, and again when it is opened again."""

    def __init__(
        self,
        life: DriverLife,
        events: XidEvents,
        cards: Callable[[], Iterable[KnownCard]],
        now_s: Callable[[], float],
    ) -> None:
        """`cards` are those known now, whose handles are good for one opening; `now_s` is a monotonic clock."""
        self._life = life
        self._events = events
        self._cards = cards
        self._now_s = now_s
        self._is_failing = False
        # When to try again to listen to those that failed, by UUID.
        self._retry_at_s: dict[str, float] = {}

    def run(self, stop: Event) -> None:
        """Listen until `stop` is set."""
        while not stop.is_set():
            try:
                with self._life.use("waiting for events") as opened:
                    self._listen(opened, stop)
            except (DriverAwayError, SourceGoneError):
                pass  # whoever tends the driver has said so
            except DriverError as error:
                self._note_failure(error)
            stop.wait(_AGAIN_SECONDS)

    def _listen(self, opened: Opened, stop: Event) -> None:
        driver = opened.driver
        events = driver.ask("EventSetCreate")
        uuids: dict[int, str] = {}
        try:
            while not stop.is_set() and self._life.is_open(opened):
                self._register(opened, events, uuids)
                until_s = self._now_s() + _WAIT_MS / 1_000
                event = driver.next_event(events, _WAIT_MS)
                self._is_failing = False
                if event is not None and event.eventType & _XID:
                    self._hear(event, uuids)
                elif (early_s := until_s - self._now_s()) > _EARLY_SECONDS:
                    # A library that does not wait must not keep us busy.
                    stop.wait(early_s)
        finally:
            with suppress(DriverError, SourceGoneError):
                driver.ask("EventSetFree", events)

    def _register(self, opened: Opened, events: Any, uuids: dict[int, str]) -> None:
        """Listen to the cards that were found since; `uuids` are those that were, by the address of the handle."""
        now_s = self._now_s()
        for card in self._cards():
            uuid, address = card.device.uuid, card.address
            is_asked = uuids.get(address) == uuid and now_s < self._retry_at_s.get(uuid, math.inf)
            if card.opening != opened.opening or not address or is_asked:
                continue
            uuids[address] = uuid
            try:
                if opened.driver.ask("DeviceGetSupportedEventTypes", card.handle) & _XID:
                    opened.driver.ask("DeviceRegisterEvents", card.handle, _XID, events)
            except DriverError as error:
                if error.state is not FieldState.UNSUPPORTED:
                    if uuid not in self._retry_at_s:
                        log.warning("xid_events_untold", gpu_uuid=uuid, reason=str(error))
                    self._retry_at_s[uuid] = now_s + _REGISTER_AGAIN_SECONDS
                    continue
            self._retry_at_s.pop(uuid, None)

    def _hear(self, event: Any, uuids: dict[int, str]) -> None:
        # A card that is lost cannot be asked for its name any more.
        gpu_uuid = uuids.get(address_of(event.device))
        if gpu_uuid is None:
            log.error("xid_of_unknown_card", xid=int(event.eventData))
            return
        gi_id, ci_id = (
            None if number == NO_INSTANCE else int(number) for number in (event.gpuInstanceId, event.computeInstanceId)
        )
        self._events.hear(Xid(int(event.eventData), gpu_uuid, gi_id, ci_id), XidSource.DRIVER)

    def _note_failure(self, error: DriverError) -> None:
        """Say once that the driver tells no events: the kernel's log may."""
        if not self._is_failing:
            log.warning("xid_events_untold", reason=str(error))
        self._is_failing = True
