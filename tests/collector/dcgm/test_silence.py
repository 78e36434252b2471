"""What becomes of a card while time goes by: left out, repeated, or behind an exporter that was away."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from collector.dcgm.exporter import DcgmExporterSource
from domain.errors import UnavailableError
from domain.series import (
    GPU_UP,
)
from tests.collector.dcgm_pages import FIELDS, Exporter, line, page
from tests.collector.sample_logs import START_S
from tests.fakes.clock import SettableClock

ENERGY, USED, RESERVED = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"
GR = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def _passing(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock, say: Callable[[int], str]
) -> Callable[[int], None]:
    """Lets seconds go by, in each of which the exporter says that and GPU-1 is read."""
    second_s = START_S

    def pass_(seconds: int) -> None:
        nonlocal second_s
        for _ in range(seconds):
            dcgm_clock.advance_us(1_000_000)
            second_s += 1
            exporter.says(say(second_s))
            dcgm_source.read("GPU-1", second_s)

    return pass_


def test_250_a_card_that_is_left_out_is_mute_and_after_90_s_lost(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """L7, dcgm-exporter 250: healthy cards are missing from some pages. 348, 604: a lost one is missing from all."""
    dcgm_source.inventory()
    pass_ = _passing(dcgm_source, exporter, dcgm_clock, lambda second_s: page("GPU-1", **{ENERGY: second_s}))
    pass_(1)
    with pytest.raises(UnavailableError, match="left it out for 0 s"):
        dcgm_source.read("GPU-2", START_S + 1)

    pass_(89)
    with pytest.raises(UnavailableError, match="left it out for 89 s"):
        dcgm_source.read("GPU-2", START_S + 90)
    pass_(1)

    (reading,) = dcgm_source.read("GPU-2", START_S + 91)
    assert dict(reading.values) == {GPU_UP: 0}
    assert [device.uuid for device in dcgm_source.inventory()] == ["GPU-1", "GPU-2"], "it stays, as it was last seen"
    exporter.says(page("GPU-1", "GPU-2"))
    assert dcgm_source.read("GPU-2", START_S + 92)[0].values[GPU_UP] == 1


def test_a_lost_card_takes_its_instances_with_it(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    instance = line(GR, 0.5, "GPU-2", 1, GPU_I_ID="3", GPU_I_PROFILE="2g.20gb")
    exporter.says(f"{page('GPU-1', 'GPU-2')}{instance}\n")
    dcgm_source.inventory()
    _passing(dcgm_source, exporter, dcgm_clock, lambda second_s: page("GPU-1", **{ENERGY: second_s}))(91)

    readings = dcgm_source.read("GPU-2", START_S + 91)

    assert [(each.mig_uuid, dict(each.values)) for each in readings] == [
        (None, {GPU_UP: 0}),
        ("MIG-GPU-2/3/0", {GPU_UP: 0}),
    ]


def test_an_outage_of_the_exporter_is_not_time_in_which_a_card_was_missing(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    dcgm_source.inventory()
    dcgm_clock.advance_us(10**9)
    exporter.says(page("GPU-1"))

    with pytest.raises(UnavailableError, match="left it out for 0 s"):
        dcgm_source.read("GPU-2", START_S + 1_000)


def test_l6_a_card_whose_energy_stands_still_for_three_periods_is_mute(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """L6. dcgm-exporter 164, gpu-monitoring-tools 188: the last values are served for ever. Nothing in the text tells.

    How long its period is was not seen yet, and is 30 s where nobody has said another.
    """
    dcgm_source.inventory()
    pass_ = _passing(dcgm_source, exporter, dcgm_clock, lambda _: page("GPU-1", **{ENERGY: 2_000}))
    pass_(91)

    with pytest.raises(UnavailableError, match="has said the same of it for 91 s"):
        pass_(1)

    exporter.says(page("GPU-1", **{ENERGY: 3_000}))
    assert dcgm_source.read("GPU-1", START_S + 93)[0].values[GPU_UP] == 1


def test_l6_an_exporter_that_looks_every_second_is_old_after_three(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """L6: its period is known by how its energy has moved."""
    stopped_s = START_S + 5

    def say(second_s: int) -> str:
        return page("GPU-1", **{ENERGY: min(second_s, stopped_s)})

    exporter.says(say(START_S))
    dcgm_source.inventory()
    pass_ = _passing(dcgm_source, exporter, dcgm_clock, say)
    pass_(5 + 3)

    with pytest.raises(UnavailableError, match="has said the same of it for 4 s"):
        pass_(1)


def test_l6_a_card_that_draws_nothing_has_an_energy_that_stands_still(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """L6: values are old where energy stands still although the card draws power."""

    def say(second_s: int) -> str:
        return page("GPU-1", **{ENERGY: min(second_s, START_S + 3), "DCGM_FI_DEV_POWER_USAGE": 0})

    exporter.says(say(START_S))
    dcgm_source.inventory()
    _passing(dcgm_source, exporter, dcgm_clock, say)(200)


def test_l6_lines_with_times_of_their_own_are_old_when_these_stand_still(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """L6: whatever the energy says, as where something between hands out what it once read."""

    def say(second_s: int) -> str:
        stamp = min(second_s, START_S + 4) * 1_000
        lines = page("GPU-1", **{ENERGY: second_s}).splitlines()
        return "\n".join(text if text.startswith("#") else f"{text} {stamp}" for text in lines) + "\n"

    exporter.says(say(START_S))
    dcgm_source.inventory()
    pass_ = _passing(dcgm_source, exporter, dcgm_clock, say)
    pass_(4 + 3)

    with pytest.raises(UnavailableError, match="has said the same of it"):
        pass_(1)


@pytest.mark.parametrize("energy", [None, 2**63 - 14, FIELDS[ENERGY]])
def test_a_card_that_tells_no_energy_or_one_that_never_moved_is_not_thought_old(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock, energy: object
) -> None:
    """Its power may well be the same for hours, and so may all the rest."""
    exporter.says(page("GPU-1", **{ENERGY: energy}))
    dcgm_source.inventory()

    _passing(dcgm_source, exporter, dcgm_clock, lambda _: page("GPU-1", **{ENERGY: energy}))(200)


def test_an_exporter_that_repeats_itself_is_told_once(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """By default it looks at the cards every 30 s."""

    def say(second_s: int) -> str:
        return page("GPU-1", **{ENERGY: (second_s - START_S) // 30})

    exporter.says(say(START_S))
    with capture_logs() as logs:
        dcgm_source.inventory()
        _passing(dcgm_source, exporter, dcgm_clock, say)(100)

    (told,) = [entry for entry in logs if entry["event"] == "exporter_is_slow"]
    assert told["seconds"] == 30
    assert "--collect-interval 1000" in told["remedy"]


def test_an_exporter_that_was_away_does_not_repeat_itself(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    exporter.says(page("GPU-1"))
    with capture_logs() as logs:
        dcgm_source.inventory()
        pass_ = _passing(dcgm_source, exporter, dcgm_clock, lambda second_s: page("GPU-1", **{ENERGY: second_s}))
        pass_(2)
        dcgm_clock.advance_us(600_000_000)
        pass_(2)

    assert logs == []
