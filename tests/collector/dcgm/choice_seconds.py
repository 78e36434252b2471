"""Seconds of one card of which two sources tell."""

from collections.abc import Mapping
from typing import Any

from collector.series_choice import SeriesChoice
from collector.source_order import DCGM, NVML
from domain.samples import Basis, DeviceReading, FieldState
from domain.series import GPU_UP, Series

WATCHED = Basis("dcgm_engine", "watched")


class ChoiceSeconds:
    """The choice between them for one device, second by second: a call is that many seconds, and the last reading."""

    def __init__(self, mig_uuid: str | None = None) -> None:
        self.choice = SeriesChoice("GPU-1", mig_uuid)
        self.second_s = 1_790_000_000

    def __call__(
        self, nvml: DeviceReading | None, dcgm: DeviceReading | None = None, seconds: int = 1
    ) -> DeviceReading:
        told = {source: each for source, each in ((NVML, nvml), (DCGM, dcgm)) if each is not None}
        for _ in range(seconds):
            self.second_s += 1
            reading = self.choice.reading(self.second_s, told)
        return reading


def nvml_says(values: Mapping[Series, Any], **more: Any) -> DeviceReading:
    """A reading in which a series has a value, or in its place the state that says why it has none."""
    missing = {series: value for series, value in values.items() if isinstance(value, FieldState)}
    said = {series: None if series in missing else value for series, value in values.items()}
    return DeviceReading("GPU-1", None, {GPU_UP: 1, **said}, more.pop("owners", {}), missing=missing, **more)


def dcgm_says(values: Mapping[Series, Any], **more: Any) -> DeviceReading:
    """The same by a host engine, which watches all that it tells."""
    told = dict.fromkeys([*values, *more.get("parts", {})], WATCHED)
    return nvml_says(values, bases=told, **more)
