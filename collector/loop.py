"""The sampling loop: once in each wall-clock second, every card is read and the second goes into the queue."""

from collections.abc import Callable, Iterable, Iterator
from threading import Event

import structlog

from collector.card_readers import CardReaders
from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.field_states import FieldStates
from collector.own_metrics import OwnMetrics
from collector.past_seconds import PastSecond
from collector.ranges import refuse_garbage
from collector.sample_runs import info_runs
from collector.sampling_record import SamplingRecord
from collector.second_body import SecondBody
from collector.steady_clock import SteadyClock
from domain.clock import MICROSECONDS
from domain.inventory import Device
from domain.samples import DeviceReading, SampleRun
from victoriametrics.encode import encode_usable

# How long after its second began a reading still counts. The rest of the second is for the queue.
_READ_UNTIL_SECONDS = 0.8
# A tick that is late has this long all the same, unless so little of the second is left that its end would pass.
_MIN_READ_SECONDS = 0.05
_BEGIN_UNTIL_SECONDS = 0.9
_INFO_SECONDS = 60
# How far behind what was sampled a clock may be to be waited for, and for how long otherwise.
_BEHIND_SECONDS = 60

log = structlog.get_logger()


class SamplingLoop:
    """One node's cards, sampled on the second.

    A second that cannot be sampled in time is a hole and is counted; it is never filled with later values. While
    the clock is in doubt nothing is sampled. A second is sampled once: where the clock steps back, the loop waits
    until it has caught up. Where that would take more than a minute and nothing was sampled for a minute, a wrong
    clock has stamped what lies ahead, and sampling starts again from the present second.
    """

    def __init__(
        self,
        node: str,
        readers: CardReaders,
        queue: BatchQueue,
        clock: SteadyClock,
        *,
        devices: Callable[[], tuple[Device, ...]],
        record: SamplingRecord,
        own: OwnMetrics,
        wake_sender: Callable[[], None],
    ) -> None:
        """`devices` says which cards there are now; the loop writes `record`, and pushes what `own` says."""
        self._node = node
        self._readers = readers
        self._queue = queue
        self._clock = clock
        self._devices = devices
        self._record = record
        self._own = own
        self._wake_sender = wake_sender
        self._described: tuple[Device, ...] = ()
        self._body = SecondBody(node)
        self._field_states = FieldStates(node)
        self._mute: frozenset[str] = frozenset()
        self._is_behind = False
        self._sampled_at_s = clock.monotonic_s()
        # The steps of the clock before the second that it is now, and before the last that was sampled here.
        self._steps = clock.steps
        self._sampled_steps: int | None = None

    def run(self, stop: Event) -> None:
        """Sample until `stop` is set, which is looked at once a second."""
        while not stop.is_set():
            self.tick()

    def tick(self) -> None:
        """Wait for the next second and sample it, unless it cannot be told or was sampled before."""
        second_s = self._wait_for_second()
        if second_s is not None:
            self.sample(second_s)

    def catch_up(self, past: Iterable[PastSecond]) -> None:
        """Queue seconds that a source remembers, after the last that was sampled; for before the first tick."""
        for second_s, readings in past:
            until_s = self._queue.sampled_until_s
            if until_s is not None and second_s >= until_s:
                self._queue.skip_to(second_s, second_s - until_s, HoleReason.NOT_RUNNING)
                self._put(second_s, list(self._believable(readings)), ())

    def sample(self, second_s: int) -> None:
        """Read every card and queue the second; the seconds between it and the last sampled one become holes.

        Where it is over before every card was read, it is a hole itself, and counted with the next that is not.
        """
        late_s = max(0.0, self._clock.now_us() / MICROSECONDS - second_s)
        if late_s > _BEGIN_UNTIL_SECONDS:
            return
        devices = self._devices()
        gpu_uuids = [device.uuid for device in devices]
        timeout_s = max(_MIN_READ_SECONDS, _READ_UNTIL_SECONDS - late_s)
        began_s = self._clock.monotonic_s()
        answers = self._readers.read_all(gpu_uuids, second_s, timeout_s)
        read_s = self._clock.monotonic_s() - began_s
        # The machine may have slept or been busy meanwhile.
        if self._clock.now_us() // MICROSECONDS > second_s:
            return
        self._skip_to(second_s)
        self._note_missed(answers.missed)
        readings = list(self._believable(answers.readings))
        self._record.sampled(late_s, read_s, gpu_uuids, readings, answers.missed)
        own = [*self._info(second_s, devices), *self._own.runs(second_s)]
        self._put(second_s, readings, own)

    def _skip_to(self, second_s: int) -> None:
        """Count what was missed before a second that is sampled now."""
        until_s = self._queue.sampled_until_s
        if until_s is not None and second_s > until_s:
            holes, reason = second_s - until_s, self._why_missed()
            log.warning("seconds_missed", node=self._node, first_s=until_s, seconds=holes, reason=str(reason))
            self._record.skip(holes)
            self._queue.skip_to(second_s, holes, reason)
        self._sampled_steps = self._steps

    def _why_missed(self) -> HoleReason:
        """Why the seconds since the last that was sampled are holes: one reason for all of them."""
        if self._sampled_steps is None:
            return HoleReason.NOT_RUNNING
        return HoleReason.LATE if self._steps == self._sampled_steps else HoleReason.CLOCK

    def _put(self, second_s: int, readings: list[DeviceReading], own: Iterable[SampleRun]) -> None:
        """Queue a second; `own` is what the collector says itself."""
        lines, left = self._body.encode(second_s, readings)
        others, unusable = encode_usable([*left, *self._field_states.runs(second_s, readings), *own])
        self._queue.put(second_s, lines + others, unusable)
        self._wake_sender()

    def _wait_for_second(self) -> int | None:
        """Sleep until the next second begins; None where it cannot be told which that is, or it was sampled before."""
        now_us = self._clock.now_us()
        next_s = now_us // MICROSECONDS + 1
        self._clock.sleep_s((next_s * MICROSECONDS - now_us) / MICROSECONDS)
        # Before the look, so that a step that is seen by then keeps this second from being sampled.
        self._steps = self._clock.steps
        believed_us = self._clock.believed_us()
        if believed_us is None:
            return None
        second_s = believed_us // MICROSECONDS
        until_s = self._queue.sampled_until_s
        if until_s is not None and second_s < until_s and not self._starts_again(second_s, until_s):
            return None
        self._is_behind = False
        self._sampled_at_s = self._clock.monotonic_s()
        return second_s

    def _starts_again(self, second_s: int, until_s: int) -> bool:
        """Whether sampling goes back to `second_s`, which the queue is told then."""
        # A sleep that ends a moment early is no step.
        if not self._is_behind and second_s + 1 < until_s:
            log.warning("clock_stepped_back", node=self._node, now_s=second_s, sampled_until_s=until_s)
            self._is_behind = True
        silent_s = self._clock.monotonic_s() - self._sampled_at_s
        if until_s - second_s <= _BEHIND_SECONDS or silent_s < _BEHIND_SECONDS:
            return False
        holes, reason = round(silent_s) - 1, HoleReason.CLOCK
        log.error(
            "sampling_starts_again",
            node=self._node,
            from_s=second_s,
            wrongly_sampled_until_s=until_s,
            seconds_missed=holes,
            reason=str(reason),
        )
        self._queue.skip_to(second_s, holes, reason)
        self._record.skip(holes)
        return True

    def _believable(self, readings: Iterable[DeviceReading]) -> Iterator[DeviceReading]:
        for reading in readings:
            checked = refuse_garbage(reading)
            for series in checked.refused:
                if self._record.garbage(series):
                    value = reading.values.get(series, dict(reading.owners))
                    log.warning("garbage_refused", series=series.name, gpu_uuid=reading.gpu_uuid, value=value)
            yield checked.reading

    def _note_missed(self, missed: dict[str, str]) -> None:
        for gpu_uuid in missed.keys() - self._mute:
            log.warning("card_mute", node=self._node, gpu_uuid=gpu_uuid, reason=missed[gpu_uuid])
        for gpu_uuid in self._mute - missed.keys():
            log.info("card_answers", node=self._node, gpu_uuid=gpu_uuid)
        self._mute = frozenset(missed)

    def _info(self, second_s: int, devices: tuple[Device, ...]) -> Iterator[SampleRun]:
        if devices != self._described or second_s % _INFO_SECONDS == 0:
            self._described = devices
            yield from info_runs(self._node, second_s, devices)
