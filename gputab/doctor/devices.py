"""What each card and MIG instance of the node can tell, as the collector itself would read it."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from collector.capabilities import CAPABILITIES, family_of
from collector.card_readers import CardReaders
from collector.nvml.source import NvmlSource
from collector.owners.hints import hints
from collector.owners.places import place
from collector.ranges import refuse_garbage
from domain.clock import MICROSECONDS, Clock
from domain.inventory import Device, MigInstance
from domain.samples import UNATTRIBUTED, DeviceReading, FieldState
from domain.series import (
    GPU_BASIS_INFO,
    GPU_FIELD_STATE,
    GPU_INFO,
    GPU_LAST_XID,
    GPU_MEMORY_USED,
    GPU_TOPOLOGY_LINK,
    MIG_INFO,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from gputab.doctor.findings import CardProcess, DeviceReport, Finding, SeriesFinding, Verdict
from gputab.doctor.reasons import reason_of, untold

# What is measured over a while has no value in the first second.
_ROUNDS = 2
_ROUND_SECONDS = 1.0
# As long as a driver may take that is merely slow.
_ANSWER_SECONDS = 5.0
# Not of what a card tells, but of how that is told; and what only DCGM counts.
_NOT_ASKED = frozenset({GPU_INFO, MIG_INFO, GPU_TOPOLOGY_LINK, GPU_FIELD_STATE, GPU_BASIS_INFO, GPU_LAST_XID})


def examine(source: NvmlSource, clock: Clock) -> tuple[list[DeviceReport], list[Finding]]:
    """Every card and instance, and what is to be said of those that do not answer. Takes a good second.

    Raises UnavailableError where the driver gives no inventory.
    """
    devices = {device.uuid: device for device in source.inventory()}
    told: dict[tuple[str, str | None], DeviceReading] = {}
    readers = CardReaders(source)
    try:
        for number in range(_ROUNDS):
            if number:
                clock.sleep_s(_ROUND_SECONDS)
            answers = readers.read_all(devices, clock.now_us() // MICROSECONDS, _ANSWER_SECONDS)
            for reading in answers.readings:
                place = reading.gpu_uuid, reading.mig_uuid
                told[place] = _merged(told.get(place), reading)
    finally:
        readers.close()
    reports = [_report(devices[gpu_uuid], reading, source) for (gpu_uuid, _), reading in told.items()]
    mute = [
        Finding(f"card {devices[gpu_uuid].index}", Verdict.MEND, why, "see dmesg; reset the card, or reboot the node")
        for gpu_uuid, why in answers.missed.items()
    ]
    return reports, [*mute, *(finding for report in reports for finding in _findings(report))]


def _merged(before: DeviceReading | None, now: DeviceReading) -> DeviceReading:
    """A second with what was told in those before it: not all is asked in every second."""
    if before is None:
        return now
    return replace(now, values={**before.values, **now.values}, parts={**before.parts, **now.parts})


def _report(device: Device, reading: DeviceReading, source: NvmlSource) -> DeviceReport:
    instance = next((each for each in device.instances if each.uuid == reading.mig_uuid), None)
    family = family_of(device.model, device.architecture, is_instance=reading.mig_uuid is not None)
    checked = refuse_garbage(reading)
    used_bytes = checked.reading.values.get(GPU_MEMORY_USED)
    told = {owner: use.memory_bytes for owner, use in checked.reading.owners.items() if use.memory_bytes is not None}
    proved_bytes = sum(told.values()) - told.get(UNATTRIBUTED, 0) if told else None
    return DeviceReport(
        device,
        instance,
        family,
        tuple(_series_findings(checked.reading, checked.refused, has_instances=device.mig_enabled and not instance)),
        None if used_bytes is None else int(used_bytes),
        proved_bytes,
        tuple(_processes(source, device.uuid, instance)),
    )


def _series_findings(
    reading: DeviceReading, refused: Collection[Series], *, has_instances: bool
) -> Iterator[SeriesFinding]:
    for series in CAPABILITIES:
        if series in _NOT_ASKED:
            continue
        state = FieldState.GARBAGE if series in refused else reading.missing.get(series)
        value, parts = _value(reading, series)
        if value is not None or parts:
            basis = reading.bases.get(series)
            source = "" if basis is None else f"{basis.source} {basis.basis}"
            yield SeriesFinding(series, value, parts, source)
        else:
            reason = untold(series, has_instances=has_instances) if state is None else reason_of(state, series)
            yield SeriesFinding(series, None, 0, "", state or "", *reason)


def _value(reading: DeviceReading, series: Series) -> tuple[int | float | None, int]:
    """A series' value, or of how many parts it has one."""
    if series is OWNER_MEMORY:
        return None, sum(use.memory_bytes is not None for use in reading.owners.values())
    if series is OWNER_COMPUTE:
        return None, sum(use.compute_ratio is not None for use in reading.owners.values())
    if series in reading.parts:
        return None, len(reading.parts[series])
    return reading.values.get(series), 0


def _processes(source: NvmlSource, gpu_uuid: str, instance: MigInstance | None) -> Iterator[CardProcess]:
    for pid, owner, gi_id, used_bytes, sm_percent in source.processes(gpu_uuid):
        if instance is not None and gi_id != instance.gi_id:
            continue
        is_proved = owner is not None
        where, claims = (None, {}) if is_proved else (str(place(pid)), hints(pid))
        yield CardProcess(pid, owner, used_bytes, sm_percent, where, claims)


def _findings(report: DeviceReport) -> Iterator[Finding]:
    """What can be done about a device: each reason once, with the series that it costs."""
    costs: dict[tuple[str, str, bool], list[str]] = {}
    for each in report.series:
        if each.remedy:
            costs.setdefault((each.reason, each.remedy, each.is_wrong), []).append(each.series.name)
    for (words, remedy, is_wrong), names in costs.items():
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        verdict = Verdict.MEND if is_wrong else Verdict.NOTE
        yield Finding(report.title, verdict, f"no {shown}: {words}", remedy)
