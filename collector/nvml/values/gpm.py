"""The driver's performance metrics (GPM; Hopper and later): what a card or MIG instance did between two samples."""

import math
import struct
from collections.abc import Mapping
from typing import Any

from collector.nvml.driver import IN_USE, INVALID_ARGUMENT, CardLostError, DriverError, DriverGoneError, gpm_request
from collector.nvml.probe import Probe, Round
from domain.samples import FieldState
from domain.series import (
    GPU_DRAM_ACTIVE,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_SM_ACTIVE,
    GPU_SM_OCCUPANCY,
    GPU_TENSOR_ACTIVE,
    Series,
)

# nvml.h, nvmlGpmMetricId_t.
PCIE_TRANSMITTED_RATE, PCIE_RECEIVED_RATE = 20, 21
NVLINK_RECEIVED_RATE, NVLINK_TRANSMITTED_RATE = 60, 61
SM_ELAPSED_CYCLES, SM_ACTIVE_CYCLES = 248, 249
PCIE_TRANSMITTED_BYTES, PCIE_RECEIVED_BYTES = 255, 256
# In percent, each of one device.
RATIOS: Mapping[Series, int] = {
    GPU_GR_ACTIVE: 1,
    GPU_SM_ACTIVE: 2,
    GPU_SM_OCCUPANCY: 3,
    GPU_TENSOR_ACTIVE: 5,
    GPU_DRAM_ACTIVE: 10,
    GPU_FP64_ACTIVE: 11,
    GPU_FP32_ACTIVE: 12,
    GPU_FP16_ACTIVE: 13,
}
INSTANCE_METRICS = (
    *RATIOS.values(),
    SM_ELAPSED_CYCLES,
    SM_ACTIVE_CYCLES,
    PCIE_TRANSMITTED_RATE,
    PCIE_RECEIVED_RATE,
    PCIE_TRANSMITTED_BYTES,
    PCIE_RECEIVED_BYTES,
)
CARD_METRICS = (*INSTANCE_METRICS, NVLINK_RECEIVED_RATE, NVLINK_TRANSMITTED_RATE)

# A shorter window is noise, and a longer one tells nothing of its last second.
_MIN_WINDOW_SECONDS, _MAX_WINDOW_SECONDS = 0.5, 600.0

# nvmlGpmMetric_t behind the head of nvmlGpmMetricsGet_t: number, code, value, three pointers.
_HEAD_BYTES = 24
_ROW = "IId24x"

Metrics = Mapping[int, float | FieldState]


class Gpm:
    """The metrics of one device. `close` frees the two samples that the driver keeps for it."""

    def __init__(self, probe: Probe, metrics: tuple[int, ...], call: str, *target: Any) -> None:
        """`call` with `target` takes a sample of the device: GpmSampleGet, or GpmMigSampleGet with the instance."""
        self._probe = probe
        self._driver = probe.driver
        self._metrics = metrics
        self._call = call
        self._target = target
        self._all: Mapping[FieldState, Metrics] = {state: dict.fromkeys(metrics, state) for state in FieldState}
        self._before: Any = None
        self._spare: Any = None
        self._taken_s = 0.0
        self.window_s = 0.0
        """How long the window of the last metrics was; 0 where there were none."""
        self._round = Round(probe)
        self._is_unsupported: bool | None = None
        self._request: Any = None
        self._rows = struct.Struct("")

    def read(self) -> Metrics:
        """Each metric in the driver's own unit since the last time, or the reason why there is none.

        Raises CardLostError, DriverGoneError.
        """
        self.window_s = 0.0
        if self._round.begins():
            self._is_unsupported = self._request = None
        if self._is_unsupported is None:
            support = self._probe.ask("GpmQueryDeviceSupport")
            if isinstance(support, FieldState) and support is not FieldState.UNSUPPORTED:
                return self._all[support]
            self._is_unsupported = isinstance(support, FieldState) or not support.isSupportedDevice
        if self._is_unsupported:
            return self._all[FieldState.UNSUPPORTED]
        if self._before is not None and self._probe.now_s - self._taken_s < _MIN_WINDOW_SECONDS:
            return self._all[FieldState.NOT_READY]
        turn = self._driver.gpm_turn.take()
        if turn is None:
            return self._all[FieldState.NOT_READY]
        try:
            return self._measured()
        except (CardLostError, DriverGoneError):
            raise
        except DriverError as error:
            state = self._state(error)
            self._is_unsupported = state is FieldState.UNSUPPORTED
            return self._all[state]
        finally:
            self._driver.gpm_turn.give(turn)

    def close(self) -> None:
        """Free the samples. Never while a read is running: the driver writes into them."""
        for sample in (self._before, self._spare):
            if sample is not None:
                self._driver.answer("GpmSampleFree", sample)
        self._before = self._spare = None

    def _measured(self) -> Metrics:
        if self._spare is None:
            self._spare = self._driver.ask("GpmSampleAlloc")
        self._driver.ask(self._call, *self._target, self._spare)
        before, after = self._before, self._spare
        window_s = self._probe.now_s - self._taken_s
        self._before, self._spare, self._taken_s = after, before, self._probe.now_s
        if before is None or window_s > _MAX_WINDOW_SECONDS:
            return self._all[FieldState.NOT_READY]
        if self._request is None:
            self._make_request(before, after)
        told = {**self._all[FieldState.UNSUPPORTED], **self._ask(self._request, before, after)}
        self.window_s = window_s
        return told

    def _make_request(self, before: Any, after: Any) -> None:
        """Ask for each metric alone once: a driver older than one of them may refuse all that come with it."""
        known = []
        for metric in self._metrics:
            self._rows = struct.Struct(_ROW)
            try:
                told = self._ask(gpm_request((metric,)), before, after)
            except CardLostError:
                raise
            except DriverError as error:
                if self._state(error) is not FieldState.UNSUPPORTED:
                    raise
                continue
            if told[metric] is not FieldState.UNSUPPORTED:
                known.append(metric)
        self._rows = struct.Struct(_ROW * len(known))
        self._request = gpm_request(known)

    def _ask(self, request: Any, before: Any, after: Any) -> dict[int, float | FieldState]:
        request.sample1, request.sample2 = before, after
        if request.numMetrics:
            self._driver.ask("GpmMetricsGet", request)
        row = self._rows.unpack_from(request, _HEAD_BYTES)
        return {
            metric: value if code == 0 and math.isfinite(value) else self._missing(code)
            for metric, code, value in zip(row[::3], row[1::3], row[2::3], strict=True)
        }

    def _missing(self, code: int) -> FieldState:
        return FieldState.NOT_READY if code == 0 else self._driver.state("GpmMetricsGet", code)

    @staticmethod
    def _state(error: DriverError) -> FieldState:
        # Nsight, or another profiler, has the counters for itself.
        if error.code == IN_USE:
            return FieldState.PROFILER_BUSY
        return FieldState.UNSUPPORTED if error.code == INVALID_ARGUMENT else error.state
