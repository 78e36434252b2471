"""A host that cuts its cards into virtual ones for its guests: what each of those uses."""

from contextlib import suppress

from collector.nvml.probe import Probe, Round
from collector.nvml.stamp_clock import StampClock
from collector.telling import Telling
from domain.samples import FieldState
from domain.series import GPU_VGPU_BUSY, GPU_VGPU_MEMORY

# nvml.h, NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU.
_HOST_OF_VGPUS = 3
# The driver says again what it said before, however old it is.
_STALE_US = 2_000_000
_PERCENT = 100


class Vgpus:
    """The virtual cards of one card, by the UUID of each."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._round = Round(probe)
        self._is_host = False
        self._uuids: dict[int, str] = {}
        self._last_seen_us = 0

    def tell(self, telling: Telling) -> None:
        """Busy ratio and memory of each; nothing of a card that is not cut. Raises CardLostError, DriverGoneError."""
        if self._round.begins():
            self._is_host = self._probe.ask("DeviceGetVirtualizationMode") == _HOST_OF_VGPUS
        if not self._is_host:
            return
        active = self._probe.ask("DeviceGetActiveVgpus")
        if isinstance(active, FieldState):
            telling.missing[GPU_VGPU_BUSY] = telling.missing[GPU_VGPU_MEMORY] = active
            return
        self._name(active)
        used = {uuid: self._probe.driver.answer("VgpuInstanceGetFbUsage", vgpu) for vgpu, uuid in self._uuids.items()}
        telling.tell_parts(GPU_VGPU_MEMORY, used)
        self._tell_busy(telling)

    def _name(self, active: list[int]) -> None:
        """Learn the UUIDs of those that are new, and forget those that are gone: their numbers are used again."""
        uuids = {}
        for vgpu in active:
            # The bindings decode it. One without a name is asked for it again.
            with suppress(UnicodeDecodeError):
                uuid = self._uuids.get(vgpu) or self._probe.driver.answer("VgpuInstanceGetUUID", vgpu)
                if not isinstance(uuid, FieldState):
                    uuids[vgpu] = uuid
        self._uuids = uuids

    def _tell_busy(self, telling: Telling) -> None:
        samples = self._probe.ask("DeviceGetVgpuUtilization", self._last_seen_us)
        if isinstance(samples, FieldState):
            telling.missing[GPU_VGPU_BUSY] = samples
            return
        newest_us = max((sample.timeStamp for sample in samples), default=0)
        now_us = StampClock(self._probe).now_us(newest_us)
        self._last_seen_us = newest_us
        busy: dict[str, int] = {
            self._uuids[sample.vgpuInstance]: sample.smUtil.uiVal
            for sample in samples
            if now_us is not None and sample.vgpuInstance in self._uuids and sample.timeStamp > now_us - _STALE_US
        }
        silent = dict.fromkeys(self._uuids.values(), FieldState.NOT_READY)
        telling.tell_parts(GPU_VGPU_BUSY, busy or silent, per=_PERCENT)
