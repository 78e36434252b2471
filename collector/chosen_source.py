"""NVML and DCGM as one `Source`: NVML says which cards there are, and each series is told by one of the two.

Each is asked on a thread of its own per card, so that one that fails or hangs costs the other's values nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import structlog

from collector.compute_basis import tell_from_instances
from collector.dcgm.mig_names import read_mig_name
from collector.own_metrics import OwnValue, source_values
from collector.past_seconds import PastSecond, missed_seconds
from collector.series_choice import SeriesChoice
from collector.source import Source, SourceGoneError
from collector.source_order import DCGM, NVML, may_change
from collector.telling import Telling
from collector.workers import Answers, Workers
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import DeviceReading, FieldState
from domain.series import GPU_UP

# Less than a card has in all, so that the one that answers is heard.
_READ_SECONDS = 0.6
_INVENTORY_SECONDS = 3.0

# A source and a card; a device is a card, and an instance where it is one.
_Place = tuple[str, str]
_Device = tuple[str, str | None]

log = structlog.get_logger()


class ChosenSource:
    """A `Source` that reads two; what DCGM remembers of seconds that were missed, it does."""

    def __init__(self, nvml: Source, dcgm: Source) -> None:
        """Both are closed with this one."""
        self.name = f"{nvml.name} and {dcgm.name}"
        self._nvml = nvml
        self._dcgm = dcgm
        self._cards: Workers[_Place, int, list[DeviceReading]] = Workers(self._read_one, "source")
        self._inventories: Workers[str, int, tuple[Device, ...]] = Workers(lambda *_: dcgm.inventory(), "inventory of")
        self._devices: tuple[Device, ...] = ()
        self._names: dict[tuple[str, int], str] = {}
        self._choices: dict[_Device, SeriesChoice] = {}
        self._unmatched: set[str] = set()
        self._mute: dict[_Place, bool] = {}

    def inventory(self) -> tuple[Device, ...]:
        """NVML's cards, as it last told them; a card that only DCGM knows is not read.

        DCGM looks at its own for up to 3 s. Raises UnavailableError where NVML never told any, SourceGoneError.
        """
        try:
            self._devices = self._nvml.inventory()
        except SourceGoneError:
            raise
        except UnavailableError:
            if not self._devices:
                raise
        self._names = {
            (device.uuid, instance.gi_id): instance.uuid
            for device in self._devices
            # Of two compute instances in one GPU instance the first names it.
            for instance in reversed(device.instances)
        }
        # What it says is not looked at: it learns of instances by it, and a failure shows in its values.
        self._inventories.ask_all({DCGM: 0}, _INVENTORY_SECONDS)
        return self._devices

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """The card and its instances as either source tells them.

        Raises UnavailableError where neither answers in 0.6 s, SourceGoneError where NVML is gone for this process.
        """
        asked = {(source, gpu_uuid): second_s for source in (NVML, DCGM)}
        answers = self._cards.ask_all(asked, _READ_SECONDS)
        nvml_failure = answers.failures.get((NVML, gpu_uuid))
        if isinstance(nvml_failure, SourceGoneError):
            raise nvml_failure
        self._note_mute(gpu_uuid, answers)
        if not answers.answers:
            reason = nvml_failure or answers.failures.get((DCGM, gpu_uuid)) or "neither NVML nor DCGM answers"
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: {reason}; see dmesg")
        nvml = answers.answers.get((NVML, gpu_uuid), [])
        if any(_is_lost(card) or card.missing.get(GPU_UP) is FieldState.QUIESCED for card in nvml[:1]):
            # Nor is anything told of a card that is let go of, whoever could.
            return nvml
        dcgm = [self._named(reading) for reading in answers.answers.get((DCGM, gpu_uuid), [])]
        if any(_is_lost(card) for card in dcgm[:1]):
            # Lost to DCGM alone it is not lost.
            if not nvml:
                return dcgm
            dcgm = []
        told: dict[str | None, dict[str, DeviceReading]] = {}
        for source, readings in ((NVML, nvml), (DCGM, dcgm)):
            for reading in readings:
                told.setdefault(reading.mig_uuid, {})[source] = reading
        return self._chosen(gpu_uuid, second_s, told)

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        """What DCGM still knows of these seconds, of NVML's cards; without counters that are not NVML's.

        A card in MIG mode is as busy as its instances, of which the present ones are known: one that was taken away
        since is not told of, nor is it in the mean. Whose processes there were nobody knows any more: compute by owner
        is missing, and memory is nobody's.
        """
        known = {device.uuid for device in self._devices}
        for second_s, readings in missed_seconds(self._dcgm, from_s, until_s):
            kept = [_without_counters(self._named(each)) for each in readings if each.gpu_uuid in known]
            if kept:
                yield PastSecond(second_s, [self._past(each, kept) for each in kept])

    def values(self) -> Iterator[OwnValue]:
        """What both say of their own work."""
        yield from source_values(self._nvml)
        yield from source_values(self._dcgm)

    def close(self) -> None:
        """Close both."""
        self._cards.close()
        self._inventories.close()
        self._nvml.close()
        self._dcgm.close()

    def _read_one(self, place: _Place, second_s: int) -> list[DeviceReading]:
        source, gpu_uuid = place
        return (self._nvml if source == NVML else self._dcgm).read(gpu_uuid, second_s)

    def _chosen(
        self, gpu_uuid: str, second_s: int, told: Mapping[str | None, Mapping[str, DeviceReading]]
    ) -> list[DeviceReading]:
        """The card and its instances; `told` has what each source says of them, by `mig_uuid`."""
        instances = {
            mig_uuid: self._choice(gpu_uuid, mig_uuid).reading(second_s, each)
            for mig_uuid, each in told.items()
            if mig_uuid is not None
        }
        weighed, sm_count = self._weighed(gpu_uuid, instances)
        return [self._choice(gpu_uuid, None).reading(second_s, told[None], weighed, sm_count), *instances.values()]

    def _past(self, reading: DeviceReading, all_readings: Iterable[DeviceReading]) -> DeviceReading:
        """A reading of DCGM as one of both: a card's with the mean of its instances, which are among the others."""
        if reading.mig_uuid is not None:
            return reading
        of_card = (each for each in all_readings if each.gpu_uuid == reading.gpu_uuid)
        instances = {each.mig_uuid: each for each in of_card if each.mig_uuid is not None}
        telling = Telling()
        telling.values |= reading.values
        telling.missing |= reading.missing
        telling.bases |= reading.bases
        tell_from_instances(telling, *self._weighed(reading.gpu_uuid, instances))
        return replace(reading, values=telling.values, missing=telling.missing, bases=telling.bases)

    def _weighed(
        self, gpu_uuid: str, instances: Mapping[str, DeviceReading]
    ) -> tuple[list[tuple[MigInstance, DeviceReading]], int | None]:
        """The instances of a card with their sizes, and how many SMs it has; none where NVML knows of others."""
        device = next((each for each in self._devices if each.uuid == gpu_uuid), None)
        if device is None:
            return [], None
        known = {each.uuid: each for each in device.instances}
        # A mean without one of them would be too low.
        is_whole = known.keys() == instances.keys()
        return [(known[uuid], each) for uuid, each in instances.items()] if is_whole else [], device.sm_count

    def _choice(self, gpu_uuid: str, mig_uuid: str | None) -> SeriesChoice:
        choice = self._choices.get((gpu_uuid, mig_uuid))
        if choice is None:
            choice = self._choices[gpu_uuid, mig_uuid] = SeriesChoice(gpu_uuid, mig_uuid)
        return choice

    def _named(self, reading: DeviceReading) -> DeviceReading:
        """The reading under the name that NVML has for the instance; one that NVML does not know keeps its own."""
        mig_uuid = reading.mig_uuid
        if mig_uuid is None or mig_uuid in self._names.values():
            return reading
        named = read_mig_name(mig_uuid)
        known = self._names.get((named.gpu_uuid, named.gi_id)) if named is not None else None
        if known is not None:
            return replace(reading, mig_uuid=known)
        if mig_uuid not in self._unmatched:
            self._unmatched.add(mig_uuid)
            reason = "NVML knows no such instance; it is sampled under this name, and its memory is nobody's"
            log.warning("instance_unmatched", mig_uuid=mig_uuid, reason=reason, unmatched=len(self._unmatched))
        return reading

    def _note_mute(self, gpu_uuid: str, answers: Answers[_Place, list[DeviceReading]]) -> None:
        """Say where one of the two stops answering, or answers again; where both do, whoever reads the card says it."""
        for source in (NVML, DCGM):
            place = source, gpu_uuid
            is_mute = place not in answers.answers
            if is_mute != self._mute.get(place, False):
                self._mute[place] = is_mute
                if is_mute:
                    reason = str(answers.failures.get(place, "no answer in time"))
                    log.warning("source_mute", source=source, gpu_uuid=gpu_uuid, reason=reason)
                else:
                    log.info("source_answers", source=source, gpu_uuid=gpu_uuid)


def _is_lost(card: DeviceReading) -> bool:
    return card.values.get(GPU_UP) == 0


def _without_counters(reading: DeviceReading) -> DeviceReading:
    """What may go on with the series that another source has told before."""
    return replace(
        reading,
        values={series: value for series, value in reading.values.items() if may_change(series)},
        parts={series: parts for series, parts in reading.parts.items() if may_change(series)},
        bases={series: basis for series, basis in reading.bases.items() if may_change(series)},
    )
