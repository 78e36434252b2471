"""What no card can have read is left out, counted wherever a person looks, and changes neither presence nor money."""

from collections.abc import Iterable

import pytest
from sqlalchemy import select

from domain.series import METER_QUARANTINED
from meter.evidence.evidence import Evidence, make_evidence
from meter.evidence.presence import Presence
from meter.windows.own_series import own_series
from meter.windows.windows import Outcome, WindowResult
from store.database import Database
from store.tables import billing
from tests.meter.charges import vram_charges
from tests.meter.facts import Row, make_grant, make_samples, observe, use_of
from tests.meter.fixture_types import PassAt, PutGrants, Recorded
from tests.meter.hour import DONE, HOUR_S, instant_us, stretch
from tests.meter.ledgers import charges_of, forget_bills
from tests.meter.runs import known_seconds, presence_of, values_of

GIB = 2**30
CARD_BYTES = 25 * GIB
USED, OWNED = "gpu_memory_used_bytes", "gpu_owner_memory_bytes"
BUSY, OWNED_BUSY = "gpu_busy_ratio", "gpu_owner_compute_ratio"
NO_NUMBER, ABOVE_ALL, BELOW_ALL = float("nan"), float("inf"), float("-inf")
ABSURD = 2.0**50
GARBAGE = [
    *((series, value) for series in (USED, OWNED, BUSY, OWNED_BUSY) for value in (NO_NUMBER, ABOVE_ALL, BELOW_ALL, -1)),
    *((series, CARD_BYTES + 1) for series in (USED, OWNED)),
    *((series, ABSURD) for series in (USED, OWNED, BUSY, OWNED_BUSY)),
    *((series, 1.001) for series in (BUSY, OWNED_BUSY)),
    ("gpu_up", NO_NUMBER),
    ("gpu_up", -1),
]
SAMPLED = list(range(0, 60, 2))


def _reading(series: str, second: int, value: float, gpu: str = "GPU-1") -> Row:
    return series, gpu, "", "alloc:a1" if "owner" in series else "", second, value


def _sizes(rows: Iterable[Row], sizes: dict[str, int]) -> Evidence:
    """Evidence of a minute out of the rows, where the cards are so large."""
    return make_evidence("n1", stretch(0, 60), make_samples(rows), [], [], sizes)


@pytest.mark.parametrize(("series", "value"), GARBAGE)
def test_garbage_is_left_out_and_counted_and_the_rest_is_as_without_it(series: str, value: float) -> None:
    """Alone in its second, and in one in which the card was also read: presence is a thing of its own."""
    sound = use_of(SAMPLED)
    garbage = [_reading(series, second, value) for second in (4, 5)]
    if series in (USED, "gpu_up"):
        sound = [row for row in sound if (row[0], row[4]) != (series, 4)]
    without, found = _sizes(sound, {"GPU-1": CARD_BYTES}), _sizes([*sound, *garbage], {"GPU-1": CARD_BYTES})
    assert (without.quarantined_samples, found.quarantined_samples) == (0, 2)
    assert values_of(found, "quarantined") == [("GPU-1", "", "", 4, 2, 1)]
    assert presence_of(found) == presence_of(without)
    assert presence_of(found)[4] is Presence.SAMPLED
    assert presence_of(found)[5] is not Presence.SAMPLED
    for quantity in ("vram_used", "busy", "attributed"):
        assert values_of(found, quantity) == values_of(without, quantity)
    assert known_seconds(found) == known_seconds(without)


@pytest.mark.parametrize(
    ("series", "value", "quantity"),
    [
        (USED, CARD_BYTES, "vram_used"),
        (OWNED, CARD_BYTES, "vram_used"),
        (USED, 0, "vram_used"),
        (BUSY, 1, "busy"),
        (OWNED_BUSY, 1 + 1e-9, "busy"),
        (BUSY, 0, "busy"),
    ],
)
def test_what_a_card_can_just_have_made_counts(series: str, value: float, quantity: str) -> None:
    """A sum of ratios of a card's owners is a float, a hair above 1 where the card is full."""
    found = _sizes([_reading(series, 0, value)], {"GPU-1": CARD_BYTES})
    assert found.quarantined_samples == 0
    scale = 1_000_000 if quantity == "busy" else 1
    assert [run[5] for run in values_of(found, quantity)] == [round(value * scale)]


def test_a_card_that_nobody_reported_is_held_to_no_size_but_the_largest_number() -> None:
    rows = [_reading(USED, 0, ABSURD - 1), _reading(USED, 1, ABSURD), _reading(USED, 2, CARD_BYTES + 1)]
    found = _sizes(rows, {"GPU-2": CARD_BYTES})
    assert [run[3:] for run in values_of(found, "vram_used")] == [(0, 1, 2**50 - 1), (2, 1, CARD_BYTES + 1)]
    assert found.quarantined_samples == 1


def test_garbage_beside_a_reading_of_the_same_second_takes_nothing_from_it() -> None:
    """Two collectors may say one second, and one of them nonsense."""
    found = observe([*use_of([0]), _reading(USED, 0, NO_NUMBER), _reading(USED, 0, -7)], end=1)
    assert values_of(found, "vram_used") == [("GPU-1", "", "", 0, 1, GIB)]
    assert found.quarantined_samples == 1


def test_readings_in_any_order_and_twice_are_one_and_of_two_the_larger_counts() -> None:
    """As in the store; none of it is garbage, so none is counted as such."""
    rows = [row for second in range(60) for row in use_of([second], GIB + second)]
    plain = observe(rows, end=60)
    assert observe(reversed(rows), end=60).digest == plain.digest
    assert observe([*rows, *rows[::3], *reversed(rows)], end=60).digest == plain.digest
    smaller = [(*row[:5], row[5] - 1) for row in rows if row[0] == USED]
    assert observe([*smaller, *rows, *smaller], end=60).digest == plain.digest
    assert plain.quarantined_samples == 0


def test_seconds_outside_the_window_are_no_part_of_it() -> None:
    """After it, after now, and those of a clock that says 2019, 1970 or 2100: neither read nor counted."""
    far = [3_600, 3_700, 86_400, -1, -HOUR_S, 1_546_300_800 - HOUR_S, 4_102_444_800 - HOUR_S]
    rows = [*use_of(range(60)), *(_reading(series, second, -1) for second in far for series in (USED, "gpu_up"))]
    sound_outside = [row for second in far for row in use_of([second], 2 * GIB)]
    plain = observe(use_of(range(60)))
    assert observe(rows).digest == plain.digest
    assert values_of(observe([*use_of(range(60)), *sound_outside]), "vram_used") == values_of(plain, "vram_used")


def _rated(pass_at: PassAt, recorded: Recorded, rows: Iterable[Row], now: float = 3_700) -> WindowResult:
    return pass_at(recorded(rows, DONE), now)


@pytest.mark.usefixtures("granted")
def test_a_window_counts_it_everywhere_and_charges_as_if_it_had_not_been(
    ledger: Database, pass_at: PassAt, recorded: Recorded
) -> None:
    """In what a pass says, in the row of the frozen evidence, and in the series; the card's size is the inventory's."""
    sound = use_of(range(0, 3_600, 2))
    _rated(pass_at, recorded, sound)
    charged = charges_of(ledger)
    forget_bills(ledger)
    values = (NO_NUMBER, ABOVE_ALL, -1, CARD_BYTES + 1, ABSURD)
    garbage = [_reading(USED, second, value) for second, value in zip(range(1, 3_600, 600), values, strict=False)]
    result = _rated(pass_at, recorded, [*sound, *garbage, _reading(BUSY, 2, 1.5)])
    assert (result.outcome, result.quarantined_samples) == (Outcome.SETTLED, len(values) + 1)
    assert charges_of(ledger) == charged
    with ledger.read() as connection:
        (row,) = connection.execute(select(billing.evidence))
    assert row.quarantined_samples == len(values) + 1
    told = [run for run in own_series([], [result], 0, instant_us(3_700)) if run.series is METER_QUARANTINED]
    assert [(run.labels, list(run.values)) for run in told] == [({"node": "n1"}, [len(values) + 1])]


def test_a_stretch_of_garbage_is_a_hole_and_judged_as_one(
    ledger: Database, pass_at: PassAt, recorded: Recorded, put_grants: PutGrants
) -> None:
    """Where all that a card says is nonsense, it was not sampled: what the hole costs the price book says."""
    put_grants(make_grant(0, 60))
    hole = [_reading(USED, second, -1.0) for second in range(20, 40)]
    result = _rated(pass_at, recorded, [*use_of([*range(20), *range(40, 60)]), *hole])
    (vram,) = vram_charges(charges_of(ledger))
    assert result.quarantined_samples == 20
    assert (vram.measured_seconds, vram.on_record_seconds, vram.free_seconds) == (40, 9, 11)
    assert vram.covered_seconds == 40


@pytest.mark.usefixtures("granted")
def test_what_is_said_of_seconds_to_come_waits_for_them(ledger: Database, pass_at: PassAt, recorded: Recorded) -> None:
    """A clock that runs ahead writes samples of the future: they count when that is there, not before."""
    ahead = recorded(use_of(range(3_600)), 1_000)
    assert pass_at(ahead, 1_000).window is not None
    (vram,) = vram_charges(charges_of(ledger))
    assert (vram.granted_seconds, vram.measured_seconds) == (1_000, 1_000)
    assert pass_at(recorded(use_of(range(3_600)), DONE), 900).window is not None
    (vram,) = vram_charges(charges_of(ledger))
    assert (vram.granted_seconds, vram.measured_seconds) == (900, 900)
