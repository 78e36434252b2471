"""The cards of one scrape of dcgm-exporter: whose each sample is, and what a card or MIG instance says in all of them.

A sample of a MIG instance has the UUID of its card, and of its own only a number (`GPU_I_ID`).
Pods and jobs make copies of a device's samples, not parts of them (dcgm-exporter 587): the device has them once, and
owners are not told by them. A name in a label proves nothing: whoever may write the file or the pod chose it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from collector.dcgm.device_values import device_values
from collector.dcgm.field import DcgmField, Scope
from collector.dcgm.fields import FIELD_OF_NAME, FIELDS
from collector.dcgm.mig_names import mig_name, read_mig_name
from collector.dcgm.text import DcgmSample
from collector.logs.log import RefusedRow
from domain.errors import InputError
from domain.samples import FieldState
from domain.series import Series
from domain.slugs import check_name

# Of what a sample is besides its device; `exported_` where Prometheus has put labels of the exporter's own pod there.
_JOB_LABEL = "hpc_job"
_WORKLOAD_LABELS = ("pod", "pod_name", "vgpu", _JOB_LABEL)
_RELABELLED = "exported_"
# A card has at most 15 instances.
_GI_ID = re.compile("[0-9]{1,2}")
_DEVICE = re.compile("(?:nvidia)?([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class ScrapedDevice:
    """What one card or MIG instance says: base units, exact; what it cannot tell has no key.

    `mig_uuid` and `profile` are None for the card itself; `line` is its first line in the text. `garbled` are the
    series that have words where a number belongs, or several numbers, `capped` those that are 1 and were a little more;
    `parts` and `missing` are as in `DeviceValues`.
    `jobs` are the HPC jobs that its lines name, and `time_us` is the newest time that one of them has, if any.
    """

    line: int
    mig_uuid: str | None
    profile: str | None
    values: Mapping[Series, int | Fraction]
    garbled: frozenset[Series]
    capped: frozenset[Series]
    parts: Mapping[Series, Mapping[str, int | Fraction]]
    missing: Mapping[Series, FieldState]
    jobs: frozenset[str]
    time_us: int | None


@dataclass(frozen=True, slots=True)
class ScrapedCard:
    """A card with its MIG instances by their number; None is what the text does not say of it.

    `itself` has no values where only instances are told.
    """

    gpu_uuid: str
    index: int | None
    model: str | None
    hostname: str | None
    pci_bus_id: str | None
    driver_version: str | None
    itself: ScrapedDevice
    instances: tuple[ScrapedDevice, ...]


class Scrape(NamedTuple):
    """The cards in the order of the text, and its lines that count for none, by number."""

    cards: tuple[ScrapedCard, ...]
    refused: tuple[RefusedRow, ...]


@dataclass
class _Told:
    """What is told of one card or instance, as the text has it."""

    line: int
    labels: dict[str, str] = field(default_factory=dict)
    samples: dict[DcgmField, list[DcgmSample]] = field(default_factory=dict)
    values: dict[DcgmField, int | Fraction | FieldState] = field(default_factory=dict)
    garbled: set[DcgmField] = field(default_factory=set)
    capped: set[DcgmField] = field(default_factory=set)


def scraped_cards(samples: Iterable[DcgmSample]) -> Scrape:
    """What the samples of one scrape say of each card."""
    refused: list[RefusedRow] = []
    cards: dict[str, dict[int | None, _Told]] = {}
    for sample in samples:
        if sample.problem is not None:
            refused.append(RefusedRow(sample.line, sample.problem))
        found = FIELD_OF_NAME.get(sample.name.upper())
        if found is None or (sample.problem is not None and not sample.labels):
            continue
        try:
            gpu_uuid, gi_id = _identity(sample.labels)
        except InputError as error:
            if sample.problem is None:
                refused.append(RefusedRow(sample.line, f"{sample.name}: {error}"))
            continue
        told = cards.setdefault(gpu_uuid, {}).setdefault(gi_id, _Told(sample.line))
        told.labels = {name: text for name, text in sample.labels.items() if text} | told.labels
        told.samples.setdefault(found, []).append(sample)
    found_cards = tuple(_card(gpu_uuid, devices, refused) for gpu_uuid, devices in cards.items())
    return Scrape(found_cards, tuple(sorted(refused)))


def _identity(labels: Mapping[str, str]) -> tuple[str, int | None]:
    """The UUID of the card, and the number of the MIG instance. Raises InputError."""
    gpu_uuid = check_name("GPU UUID", labels.get("UUID") or labels.get("uuid") or "")
    gi_id = labels.get("GPU_I_ID", "")
    if gi_id and not _GI_ID.fullmatch(gi_id):
        raise InputError(f"cannot use {gi_id[:40]!r} as a GPU_I_ID: it is the number of a MIG instance, such as 7")
    named = read_mig_name(gpu_uuid)
    if named is not None:
        return named.gpu_uuid, named.gi_id
    return gpu_uuid, int(gi_id) if gi_id else None


def _card(gpu_uuid: str, devices: dict[int | None, _Told], refused: list[RefusedRow]) -> ScrapedCard:
    for told in devices.values():
        _settle(told, refused)
    line = min(told.line for told in devices.values())
    itself = devices.get(None) or _Told(line)
    instances = {gi_id: told for gi_id, told in devices.items() if gi_id is not None}
    if instances:
        for each in FIELDS:
            _take_from_instances(each, itself, instances.values())
    labels = {name: text for told in reversed(devices.values()) for name, text in told.labels.items()}
    driver_version = labels.get("DCGM_FI_DRIVER_VERSION")
    index = _DEVICE.fullmatch(labels.get("gpu") or labels.get("device") or "")
    return ScrapedCard(
        gpu_uuid=gpu_uuid,
        index=int(index[1]) if index else None,
        model=labels.get("modelName"),
        hostname=labels.get("hostname") or labels.get("Hostname"),
        pci_bus_id=labels.get("pci_bus_id"),
        driver_version=driver_version,
        itself=_device(line, None, itself, driver_version),
        instances=tuple(
            _device(told.line, mig_name(gpu_uuid, gi_id), told, driver_version)
            for gi_id, told in sorted(instances.items())
        ),
    )


def _settle(told: _Told, refused: list[RefusedRow]) -> None:
    """The one value of each field: the device's own, before those of pods and jobs on it, which must agree."""
    is_relabelled = any(name.startswith(_RELABELLED) for name in told.labels)
    prefix = _RELABELLED if is_relabelled else ""
    for each, samples in told.samples.items():
        good = [sample for sample in samples if sample.value is not None]
        own = [sample for sample in good if not any(sample.labels.get(prefix + label) for label in _WORKLOAD_LABELS)]
        written = {sample.value: sample.line for sample in own or good if sample.value is not None}
        values = {each.exact(value): line for value, line in written.items()}
        if all(isinstance(exact, FieldState) for exact in values):
            # Blank is blank, whatever the reasons.
            values = dict(list(values.items())[:1])
        if len(values) > 1:
            reason = f"{samples[0].name}: {len(values)} values of one device in one scrape"
            refused.append(RefusedRow(max(values.values()), reason))
        if len(values) != 1:
            told.garbled.add(each)
            continue
        (told.values[each],) = values
        if any(each.is_capped(value) for value in written):
            told.capped.add(each)


def _take_from_instances(each: DcgmField, itself: _Told, instances: Iterable[_Told]) -> None:
    """Take from instances what they cannot tell; where the card itself is silent it is the card's.

    What only the whole card has is copied to each instance, one after another (dcgm-exporter 317): the last of a
    counter is the largest.
    """
    if each.scope is Scope.ANY:
        return
    copies = [instance.values.pop(each) for instance in instances if each in instance.values]
    told = [exact for exact in copies if not isinstance(exact, FieldState)]
    for instance in instances:
        instance.garbled.discard(each)
    if each.scope is Scope.CARD_WITHOUT_MIG:
        itself.values[each] = FieldState.UNSUPPORTED
        itself.garbled.discard(each)
    elif copies and each not in itself.samples:
        itself.values[each] = max(told) if told else copies[0]


def _device(line: int, mig_uuid: str | None, told: _Told, driver_version: str | None) -> ScrapedDevice:
    values, parts, missing = device_values(told.values, driver_version)
    samples = [sample for samples in told.samples.values() for sample in samples]
    jobs = {sample.labels.get(prefix + _JOB_LABEL, "") for sample in samples for prefix in ("", _RELABELLED)}
    return ScrapedDevice(
        line=line,
        mig_uuid=mig_uuid,
        profile=told.labels.get("GPU_I_PROFILE") or None,
        values=values,
        garbled=_series(told.garbled),
        capped=_series(told.capped),
        parts=parts,
        missing=missing,
        jobs=frozenset(job for job in jobs if job.strip()),
        time_us=max((sample.time_us for sample in samples if sample.time_us is not None), default=None),
    )


def _series(fields: Iterable[DcgmField]) -> frozenset[Series]:
    return frozenset(each.series for each in fields if each.series is not None)
