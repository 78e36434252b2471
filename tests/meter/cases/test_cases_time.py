"""When and for how long: public bugs with a right answer, in the ledger or out of what it is made of."""

from fractions import Fraction
from itertools import pairwise

from sqlalchemy import insert

from domain.units import GIB
from meter.windows.windows import Outcome
from store.database import Database
from store.tables.capacity import holds
from tests.meter.cases.booking import FREE_MEMORY, add_customer, at_offset, billed_seconds, rate_hours, summed, take_in
from tests.meter.charges import gpu_charges
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import At, Bill, MakeRater, PassAt, PutGrants, Recorded
from tests.meter.hour import DONE, instant_us
from tests.meter.ledgers import add_heartbeats, charges_of

HOUR = 3_600


def test_seconds_of_a_window_that_is_short_or_odd_are_all_there(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded
) -> None:
    """metering B17, metering B20, cases 10, cases 11: of 10:34:57 to 10:49:57 ten minutes were left (OpenCost 2096).

    And of 76 s without a sample -2.45 minutes (OpenCost 4057). An hour that is asked for while it fills is cut at no
    minute either.
    """
    put_grants(make_grant(2_097, 2_997), make_grant(2_697, 2_773, allocation="a2", gpu_uuid="GPU-2"))
    seen = recorded(use_of(range(HOUR)), DONE)
    amounts = []
    for now in (2_773.9, 2_997, 3_700):
        pass_at(seen, now)
        amounts.append({each.allocation: each.granted_seconds for each in gpu_charges(charges_of(ledger))})
    assert amounts == [{"a1": 676, "a2": 76}, {"a1": 900, "a2": 76}, {"a1": 900, "a2": 76}]
    (silent,) = [each for each in gpu_charges(charges_of(ledger)) if each.allocation == "a2"]
    assert (silent.free_seconds, silent.quantity, silent.amount_nano) == (76, 0, 0)


def test_an_hour_without_samples_is_a_hole_and_no_smaller_node(
    ledger: Database, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering B21, cases 13: with one of three hours missing two were 1.333 (OpenCost 1962, 2i2c infrastructure 2847).

    Two cards for three hours are six GPU-hours, of which two were not measured, and nothing is left over.
    """
    add_heartbeats(ledger, 0, 3 * HOUR)
    cards = ("GPU-1", "GPU-2")
    put_grants(*(make_grant(0, 3 * HOUR, allocation=gpu, gpu_uuid=gpu) for gpu in cards))
    rows = [row for gpu in cards for row in use_of([*range(HOUR), *range(2 * HOUR, 3 * HOUR + 60)], gpu=gpu)]
    results = rate_hours(ledger, make_rater(recorded(rows, 3 * HOUR + 60)), range(3), at(4 * HOUR))
    for result in results:
        assert result.window is not None
        assert (result.window.residual_compute, result.window.residual_vram) == (0, 0)
    assert billed_seconds(ledger) == {("GPU-1", 0): 3 * HOUR, ("GPU-2", 0): 3 * HOUR}
    by_hour = [[each.measured_seconds for each in gpu_charges(result.charges)] for result in results]
    assert by_hour == [[HOUR] * 2, [0] * 2, [HOUR] * 2]
    assert sum(each.on_record_seconds for each in gpu_charges(charges_of(ledger))) == 2 * HOUR


def test_a_price_changes_at_its_instant_and_not_at_the_hour(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded
) -> None:
    """metering B22: 2.40 until 10:30:15, 3.00 from there on; the minute from 10:30 is 0.01 + 0.0375 (Lago 6292)."""
    add_customer(
        ledger, make_rate("gpu", "2.40", end=1_815), make_rate("gpu", "3.00", start=1_815), FREE_MEMORY, tenant="beta"
    )
    put_grants(make_grant(1_800, 1_860, tenant="beta"))
    pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    rows = sorted((each.granted_seconds, each.amount_nano) for each in gpu_charges(charges_of(ledger)))
    assert rows == [(15, 10_000_000), (45, 37_500_000)]


def test_a_name_that_comes_back_is_another_allocation(ledger: Database, pass_at: PassAt, recorded: Recorded) -> None:
    """metering B26: train-0 at 10:00 and at 10:20, ten minutes each: 600 and 600 s, never 1,800 (OpenCost 991).

    The records have ids of their own; the owner that a node proves may be the same pod's name both times.
    """
    twice = [
        {"allocation": f"u-{n}", "source_id": "train-0", "start": at_offset(start), "end": at_offset(start + 600)}
        for n, start in enumerate((0, 1_200))
    ]
    take_in(ledger, *twice)
    pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    assert billed_seconds(ledger) == {("u-0", 0): 600, ("u-1", 0): 600}


def test_an_end_that_is_known_late_is_the_end(
    ledger: Database, make_rater: MakeRater, recorded: Recorded, at: At
) -> None:
    """metering B27: a machine that stopped by itself at 10:20 went on costing (skypilot 2769)."""
    seen = recorded(use_of(range(2 * HOUR + 60)), 2 * HOUR + 60)
    take_in(ledger, {"end": ""})
    rate_hours(ledger, make_rater(seen), range(2), at(2 * HOUR + 60))
    assert billed_seconds(ledger) == {("job-1", 0): 2 * HOUR}
    take_in(ledger, {"end": at_offset(1_200)})
    rate_hours(ledger, make_rater(seen), range(2), at(3 * HOUR))
    assert billed_seconds(ledger) == {("job-1", 0): 1_200}


def test_attempts_of_which_none_came_to_be_cost_nothing(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded
) -> None:
    """metering B28: five attempts to start, none ready, were 8.65 (parameter-golf 821).

    What is held while it is made ready is no grant; what was granted of a host that never spoke is free. That a grant
    of a host that speaks was never ready only an agent can say, and there is none yet.
    """
    with ledger.write() as connection:
        for attempt in range(5):
            connection.execute(
                insert(holds).values(
                    allocation=None,
                    gpu_uuid="GPU-1",
                    mig_uuid=None,
                    compute_units=1_000,
                    vram_bytes=24 * GIB,
                    reason="verifying",
                    start_us=instant_us(600 * attempt),
                    end_us=instant_us(600 * attempt + 300),
                    changed_us=0,
                )
            )
    put_grants(
        *(make_grant(600 * n, 600 * n + 300, allocation=f"a{n}", gpu_uuid="GPU-2") for n in range(5)),
    )
    result = pass_at(recorded(), 80 * HOUR)
    assert result.outcome is Outcome.SETTLED
    assert [each.amount_nano for each in result.charges] == [0] * 10
    assert sum(each.free_seconds for each in gpu_charges(result.charges)) == 1_500
    assert result.window is not None
    assert (result.window.residual_compute, result.window.residual_vram) == (0, 0)


def test_uptime_and_use_are_two_numbers(bill: Bill) -> None:
    """cases 8, metering A13: a GPU at 50 % for an hour was up for 1,800 s (koku-metrics-operator 938).

    Sampled each minute, each reading is written for the 60 s that it stands for; one reading is a minute at a half.
    """
    for seconds in (HOUR, 60):
        rows = [*use_of(range(seconds)), *(("gpu_busy_ratio", "GPU-1", "", "", n, 0.5) for n in range(seconds))]
        evidence = observe(rows)
        (charge,) = gpu_charges(bill(evidence, make_grant(0, seconds)))
        busy = sum(run["value"] * run["seconds"] for run in evidence.quantity("busy").iter_rows(named=True))
        assert (charge.measured_seconds, Fraction(busy, 10**6)) == (seconds, Fraction(seconds, 2))


def test_parts_of_seconds_add_up(bill: Bill) -> None:
    """cases 20: each interval of an odd length was cut to whole seconds (scope 3779)."""
    borders = [n * 1.7 for n in range(11)]
    grants = [make_grant(start, end, ordinal=n) for n, (start, end) in enumerate(pairwise(borders))]
    parts = [each.granted_seconds for each in gpu_charges(bill(observe(use_of(range(HOUR))), *grants))]
    assert sum(parts) == 17
    assert set(parts) == {1, 2}


def test_runs_of_one_job_all_count(ledger: Database, make_rater: MakeRater, recorded: Recorded, at: At) -> None:
    """cases 34: of a job that was put back into the queue only the last run was seen (reportseff 25)."""
    runs, start = [], 0
    for seconds in (3_889, 4_473, 6_122, 2_153):
        runs.append({"start": at_offset(start), "end": at_offset(start + seconds), "source_id": "17"})
        start += seconds + 100
    take_in(ledger, *runs)
    rate_hours(ledger, make_rater(recorded(use_of(range(6 * HOUR)), 6 * HOUR)), range(5), at(6 * HOUR))
    assert billed_seconds(ledger) == {
        ("job-1", 0): 3_889,
        ("job-1", 1): 4_473,
        ("job-1", 2): 6_122,
        ("job-1", 3): 2_153,
    }
    assert sum(summed(gpu_charges(charges_of(ledger))).values()) == 16_637
