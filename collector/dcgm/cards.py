"""The cards of one scrape of dcgm-exporter: whose each sample is, and what a card or MIG instance says in all of them.

A sample of a MIG instance has the UUID of its card, and of its own only a number (`GPU_I_ID`): an instance is called
`MIG-<UUID of the card>/<number>/0` here, as drivers before 470 called its first compute instance (dcgm-exporter 105).
Pods and jobs make copies of a device's samples, not parts of them (dcgm-exporter 587): the device has them once, and
owners are not told by them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from collector.dcgm.fields import (
    FIELD_OF_NAME,
    FIELDS,
    MEMORY_FREE,
    MEMORY_RESERVED,
    MEMORY_TOTAL,
    MEMORY_USED,
    DcgmField,
    Scope,
)
from collector.dcgm.text import DcgmSample
from collector.logs.log import RefusedRow
from domain.errors import InputError
from domain.series import Series
from domain.slugs import check_name

# Since this driver used memory is without what it reserves, and the two are told apart (DCGM, DcgmCacheManager.cpp).
_RESERVED_TOLD_SINCE = 510
# Of what a sample is besides its device; `exported_` where Prometheus has put labels of the exporter's own pod there.
_WORKLOAD_LABELS = ("pod", "pod_name", "vgpu", "hpc_job")
_RELABELLED = "exported_"
# A card has at most 15 instances.
_GI_ID = re.compile("[0-9]{1,2}")
_MAJOR = re.compile("([0-9]{1,4})[.]")
_DEVICE = re.compile("(?:nvidia)?([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class ScrapedDevice:
    """What one card or MIG instance says: base units, exact; what it cannot tell has no key.

    `mig_uuid` and `profile` are None for the card itself; `line` is its first line in the text. `garbled` are the
    series that have words where a number belongs, or several numbers.
    """

    line: int
    mig_uuid: str | None
    profile: str | None
    values: Mapping[Series, int | Fraction]
    garbled: frozenset[Series]


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
    values: dict[DcgmField, int | Fraction] = field(default_factory=dict)
    garbled: set[DcgmField] = field(default_factory=set)


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


def mig_name(gpu_uuid: str, gi_id: int) -> str:
    """What the MIG instance of that number is called, of which no UUID is told."""
    return f"MIG-{gpu_uuid}/{gi_id}/0"


def _identity(labels: Mapping[str, str]) -> tuple[str, int | None]:
    """The UUID of the card, and the number of the MIG instance. Raises InputError."""
    gpu_uuid = check_name("GPU UUID", labels.get("UUID") or labels.get("uuid") or "")
    gi_id = labels.get("GPU_I_ID", "")
    if gi_id and not _GI_ID.fullmatch(gi_id):
        raise InputError(f"cannot use {gi_id[:40]!r} as a GPU_I_ID: it is the number of a MIG instance, such as 7")
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
    for told in (itself, *instances.values()):
        _settle_memory(told.values, driver_version)
    index = _DEVICE.fullmatch(labels.get("gpu") or labels.get("device") or "")
    return ScrapedCard(
        gpu_uuid=gpu_uuid,
        index=int(index[1]) if index else None,
        model=labels.get("modelName"),
        hostname=labels.get("hostname") or labels.get("Hostname"),
        pci_bus_id=labels.get("pci_bus_id"),
        driver_version=driver_version,
        itself=_device(line, None, itself),
        instances=tuple(
            _device(told.line, mig_name(gpu_uuid, gi_id), told) for gi_id, told in sorted(instances.items())
        ),
    )


def _settle(told: _Told, refused: list[RefusedRow]) -> None:
    """The one value of each field: the device's own, before those of pods and jobs on it, which must agree."""
    is_relabelled = any(name.startswith(_RELABELLED) for name in told.labels)
    prefix = _RELABELLED if is_relabelled else ""
    for each, samples in told.samples.items():
        good = [sample for sample in samples if sample.value is not None]
        own = [sample for sample in good if not any(sample.labels.get(prefix + label) for label in _WORKLOAD_LABELS)]
        values = {each.exact(sample.value): sample.line for sample in own or good if sample.value is not None}
        if len(values) > 1:
            reason = f"{samples[0].name}: {len(values)} values of one device in one scrape"
            refused.append(RefusedRow(max(values.values()), reason))
        if len(values) != 1:
            told.garbled.add(each)
            continue
        (value,) = values
        if value is not None:
            told.values[each] = value


def _take_from_instances(each: DcgmField, itself: _Told, instances: Iterable[_Told]) -> None:
    """Take from instances what they cannot tell; where the card itself is silent it is the card's.

    What only the whole card has is copied to each instance, one after another (dcgm-exporter 317): the last of a
    counter is the largest.
    """
    if each.scope is Scope.ANY:
        return
    told = [instance.values.pop(each) for instance in instances if each in instance.values]
    for instance in instances:
        instance.garbled.discard(each)
    if each.scope is Scope.CARD_WITHOUT_MIG:
        itself.values.pop(each, None)
        itself.garbled.discard(each)
    elif told and each not in itself.samples:
        itself.values[each] = max(told)


def _settle_memory(values: dict[DcgmField, int | Fraction], driver_version: str | None) -> None:
    """What a device has in all, where that is not told itself, and no use that counts what the driver reserves.

    Used and free make a total only together with what is reserved (dcgm-exporter 271), which older drivers count as
    used. Each is cut to whole MiB, so a sum is up to 2 MiB short.
    """
    major = _MAJOR.match(driver_version or "")
    reserved_is_used = major is not None and int(major[1]) < _RESERVED_TOLD_SINCE
    parts = (MEMORY_USED, MEMORY_FREE) if reserved_is_used else (MEMORY_USED, MEMORY_FREE, MEMORY_RESERVED)
    if MEMORY_TOTAL not in values and all(part in values for part in parts):
        values[MEMORY_TOTAL] = sum(values[part] for part in parts)
    if reserved_is_used:
        values.pop(MEMORY_USED, None)


def _device(line: int, mig_uuid: str | None, told: _Told) -> ScrapedDevice:
    values = {each.series: value for each, value in told.values.items() if each.series is not None}
    garbled = frozenset(each.series for each in told.garbled if each.series is not None)
    return ScrapedDevice(line, mig_uuid, told.labels.get("GPU_I_PROFILE") or None, values, garbled)
