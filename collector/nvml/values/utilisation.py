"""How busy a card was in the second that ended: from the driver's own finer samples, else from its last rate."""

from collector.nvml.probe import Probe
from collector.nvml.stamp_clock import AHEAD_US, StampClock
from collector.telling import Telling
from domain.samples import Basis, FieldState
from domain.series import GPU_BUSY, GPU_MEMORY_BUSY

# nvml.h, nvmlSamplingType_t.
_GPU_SAMPLES, _MEMORY_SAMPLES = 1, 2
# The tick is not on time to the microsecond; what is older is of the second before.
_SECOND_US = 1_500_000
_PERCENT = 100
# So long after its handle was made a card may still be at work for the driver that was just loaded.
_INITIALISING_SECONDS = 30
_PROCESS_LISTS = ("DeviceGetComputeRunningProcesses_v3", "DeviceGetGraphicsRunningProcesses_v3")

_SAMPLED, _RATE = Basis("nvml", "sampled"), Basis("nvml", "rate")


class Utilisation:
    """Busy ratios of one card that is not in MIG mode; there they do not exist, whatever some drivers say."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._initialised_at_s = probe.now_s + _INITIALISING_SECONDS
        self._buffers = {
            GPU_BUSY: SampleBuffer(probe, _GPU_SAMPLES),
            GPU_MEMORY_BUSY: SampleBuffer(probe, _MEMORY_SAMPLES),
        }

    def tell(self, telling: Telling) -> None:
        """Both ratios with their basis. Raises CardLostError, DriverGoneError."""
        rates = None
        for series, buffer in self._buffers.items():
            percent = buffer.mean()
            if not isinstance(percent, FieldState):
                telling.tell(series, percent, per=_PERCENT, basis=_SAMPLED)
                continue
            # The buffer of an idle card is empty: that is not an error, and 0 is what the rate says then.
            if rates is None:
                rates = self._probe.ask("DeviceGetUtilizationRates")
            rate = rates
            if not isinstance(rates, FieldState):
                rate = rates.gpu if series is GPU_BUSY else rates.memory
            telling.tell(series, rate, per=_PERCENT, basis=_RATE)
        is_busy = telling.values[GPU_BUSY] or telling.values[GPU_MEMORY_BUSY]
        if is_busy and self._probe.now_s < self._initialised_at_s and self._is_scrubbing():
            for series in self._buffers:
                telling.tell(series, FieldState.NOT_READY)

    def _is_scrubbing(self) -> bool:
        """Whether it may be the driver that is at work: it scrubs memory that has ECC, and no process is there.

        Where processes are not told it may be theirs.
        """
        mode = self._probe.ask("DeviceGetEccMode")
        if isinstance(mode, FieldState) or not mode[0]:
            return False
        lists = [self._probe.ask(call) for call in _PROCESS_LISTS]
        return all(each is FieldState.UNSUPPORTED or each == [] for each in lists)


class SampleBuffer:
    """One of the driver's buffers of samples, of which each is used once."""

    def __init__(self, probe: Probe, kind: int) -> None:
        self._probe = probe
        self._kind = kind
        self._last_seen_us = 0

    def mean(self) -> float | FieldState:
        """The mean of the samples of the last second that were not seen before, in percent.

        Where one of them is more than 100 that one, which nobody can believe; NOT_READY where there is none.
        """
        answer = self._probe.ask("DeviceGetSamples", self._kind, self._last_seen_us, of=self._kind)
        if isinstance(answer, FieldState) or not answer[1]:
            # Where its clock was set back, the driver has nothing that is newer than what it said before.
            self._last_seen_us = 0
            return answer if isinstance(answer, FieldState) else FieldState.NOT_READY
        samples = [(sample.timeStamp, sample.sampleValue.uiVal) for sample in answer[1]]
        stamp_now_us = StampClock(self._probe).now_us(max(at_us for at_us, _ in samples))
        if stamp_now_us is None:
            return FieldState.NOT_READY
        recent = [
            percent
            for at_us, percent in samples
            if max(self._last_seen_us, stamp_now_us - _SECOND_US) < at_us <= stamp_now_us + AHEAD_US
        ]
        if not recent:
            return FieldState.NOT_READY
        self._last_seen_us = max(at_us for at_us, _ in samples)
        highest = max(recent)
        return float(highest) if highest > _PERCENT else sum(recent) / len(recent)
