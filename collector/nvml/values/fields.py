"""The driver's numbered fields (nvml.h, NVML_FI_DEV_*): many are asked for by one call, and each has its answer."""

import struct
from collections.abc import Mapping

from collector.nvml.probe import Probe, Round
from domain.samples import FieldState

# A field's number, and what of the card it is about where there are several: a link.
Field = tuple[int, int]
Told = Mapping[Field, int | float | FieldState]

PERF_POLICY_POWER, PERF_POLICY_THERMAL, PERF_POLICY_SYNC_BOOST = (74, 0), (75, 0), (76, 0)
PERF_POLICY_BOARD_LIMIT, PERF_POLICY_LOW_UTILIZATION, PERF_POLICY_RELIABILITY = (77, 0), (78, 0), (79, 0)
PERF_POLICY_TOTAL_APP_CLOCKS, PERF_POLICY_TOTAL_BASE_CLOCKS = (80, 0), (81, 0)
SW_THERMAL_SLOWDOWN, HW_THERMAL_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN = (269, 0), (270, 0), (271, 0)
MEMORY_TEMPERATURE = (82, 0)
REMAPPED_CORRECTABLE, REMAPPED_UNCORRECTABLE = (142, 0), (143, 0)
REMAPPED_PENDING, REMAPPED_FAILURE = (144, 0), (145, 0)
POWER_AVERAGE, POWER_INSTANT = (185, 0), (186, 0)
PCIE_TRANSMITTED_BYTES, PCIE_RECEIVED_BYTES = (197, 0), (198, 0)
RECOVERY_ACTION = (230, 0)
# By link: payload in KiB, and where a driver no longer has that, bytes.
NVLINK_TRANSMITTED_KIB, NVLINK_RECEIVED_KIB, NVLINK_TRANSMITTED_BYTES, NVLINK_RECEIVED_BYTES = 138, 139, 202, 204

# A number that such a thing never is: some drivers answer it for what they cannot measure.
_ZERO_IS_NO_ANSWER = frozenset({MEMORY_TEMPERATURE, POWER_AVERAGE, POWER_INSTANT})

# nvmlFieldValue_t: field, scope, timestamp, latency, type and code of the value, value.
_ROW = struct.Struct("<IIqqIIQ")
_CALL = "DeviceGetFieldValues"
_DOUBLE, _UNSIGNED_INT, _SIGNED_LONG_LONG, _SIGNED_INT, _UNSIGNED_SHORT = 0, 1, 4, 5, 6
_UNSIGNED_INT_NONE, _UNSIGNED_LONG_NONE = 2**32 - 1, 2**64 - 1


class FieldValues:
    """The fields of one card. What it cannot tell is asked again as its `Probe` says."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._round = Round(probe)
        self._cannot: set[Field] = set()
        self._asked: dict[tuple[Field, ...], list[Field]] = {}

    def read(self, fields: tuple[Field, ...]) -> dict[Field, int | float | FieldState]:
        """Each field's value, or the reason why it has none. Raises CardLostError, DriverGoneError."""
        told: dict[Field, int | float | FieldState] = dict.fromkeys(fields, FieldState.UNSUPPORTED)
        asked = self._askable(fields)
        if not asked:
            return told
        rows = self._probe.ask(_CALL, asked)
        if isinstance(rows, FieldState):
            return told | dict.fromkeys(asked, rows)
        cannot = set()
        # In the order of the question: some drivers write another scope into the answer.
        for field, (_, _, _, _, kind, code, bits) in zip(asked, _ROW.iter_unpack(rows), strict=True):
            value = _value(kind, bits) if code == 0 else self._probe.driver.state(_CALL, code)
            if code != 0 and value is FieldState.UNSUPPORTED:
                cannot.add(field)
            told[field] = FieldState.UNSUPPORTED if value == 0 and field in _ZERO_IS_NO_ANSWER else value
        if cannot:
            self._cannot |= cannot
            self._asked.clear()
        return told

    def _askable(self, fields: tuple[Field, ...]) -> list[Field]:
        if self._round.begins():
            self._cannot.clear()
            self._asked.clear()
        asked = self._asked.get(fields)
        if asked is None:
            asked = self._asked[fields] = [field for field in fields if field not in self._cannot]
        return asked


def _value(kind: int, bits: int) -> int | float | FieldState:
    if kind == _UNSIGNED_INT:
        word = bits & _UNSIGNED_INT_NONE
        return FieldState.UNSUPPORTED if word == _UNSIGNED_INT_NONE else word
    if kind == _DOUBLE:
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    if kind == _SIGNED_LONG_LONG:
        return bits - 2**64 if bits >= 2**63 else bits
    if kind == _SIGNED_INT:
        word = bits & _UNSIGNED_INT_NONE
        return word - 2**32 if word >= 2**31 else word
    if kind == _UNSIGNED_SHORT:
        return bits & 0xFFFF
    return FieldState.UNSUPPORTED if bits == _UNSIGNED_LONG_NONE else bits
