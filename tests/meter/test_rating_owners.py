"""Whose use a share is measured by: owners that the node proved, joined by source, name, card and second."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from domain.grants import Grant, GrantKind
from domain.prices import VramBasis
from domain.units import GIB
from meter.rating.charges import Charge
from store.access import Principal
from store.capacity import load_grants
from store.database import Database
from tests.meter.charges import vram_charges
from tests.meter.fixture_types import Bill, MakeGrant, MakeRate, Observe, PutGrants, UseOf
from tests.meter.hour import stretch

Charged = Callable[..., list[int]]
SHARE = {"kind": GrantKind.SHARE, "compute_units": 250, "vram_bytes": 4 * GIB}
JOB = {**SHARE, "source": "slurm", "source_id": "17"}


@pytest.fixture
def used_by(bill: Bill, observe: Observe, make_rate: MakeRate) -> Charged:
    """Byte-seconds that each grant used, in order of allocation and ordinal."""

    def charged(rows: list[Any], *grants: Grant) -> list[int]:
        rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.USED),)
        return [charge.quantity for charge in vram_charges(bill(observe(rows), *grants, rates=rates))]

    return charged


@pytest.fixture
def overused(bill: Bill, observe: Observe, make_rate: MakeRate) -> Charged:
    """Byte-seconds beyond its VRAM of each grant, in order of allocation and ordinal."""

    def charged(rows: list[Any], *grants: Grant) -> list[int]:
        charges: list[Charge] = bill(observe(rows), *grants, rates=(make_rate("vram_overuse", "1", "GiB-hour"),))
        return [charge.quantity for charge in charges if charge.dimension == "vram_overuse"]

    return charged


@pytest.mark.parametrize(
    ("source", "source_id", "owner"),
    [
        ("service", None, "alloc:a1"),
        ("slurm", "17", "alloc:a1"),
        ("slurm", "17", "slurm:17"),
        ("pod", "2fc932ce-0b5a-4c3e-9d6d-0a4f5b6c7d8e", "pod:2fc932ce-0b5a-4c3e-9d6d-0a4f5b6c7d8e"),
        ("unit", "serve.service", "unit:serve.service"),
        ("nightly-export", "slurm:17", "slurm:17"),
    ],
)
def test_a_share_is_measured_by_the_owner_that_its_source_names(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant, source: str, source_id: str | None, owner: str
) -> None:
    rows = [*use_of(range(10), 9 * GIB), *use_of(range(10), 2 * GIB, owner=owner)]
    assert used_by(rows, make_grant(0, 10, **{**SHARE, "source": source, "source_id": source_id})) == [20 * GIB]


@pytest.mark.parametrize(("source", "source_id"), [("nightly-export", "17"), ("slurm", None), ("slurm", "18")])
def test_an_owner_that_no_source_names_is_nobodys_use(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant, source: str, source_id: str | None
) -> None:
    rows = [*use_of(range(10), 9 * GIB), *use_of(range(10), 2 * GIB, owner="slurm:17")]
    assert used_by(rows, make_grant(0, 10, **{**SHARE, "source": source, "source_id": source_id})) == [0]


def test_a_grant_with_two_names_has_the_use_of_both(
    used_by: Charged, overused: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A job with a container that was recorded for its allocation: 2 and 3 GiB at a time are 1 beyond the 4 granted."""
    rows = [
        *use_of(range(10), 9 * GIB),
        *use_of(range(6), 2 * GIB, owner="alloc:a1"),
        *use_of(range(4, 10), 3 * GIB, owner="slurm:17"),
    ]
    assert used_by(rows, make_grant(0, 10, **JOB)) == [(6 * 2 + 6 * 3) * GIB]
    assert overused(rows, make_grant(0, 10, **JOB)) == [2 * GIB]


def test_b26_and_34_a_job_that_comes_back_has_its_own_use_each_time(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A requeued job is two grants of one name: each has the use of its own seconds, and nobody what is between."""
    rows = [
        *use_of(range(60), 9 * GIB),
        *use_of(range(20), GIB, owner="slurm:17"),
        *use_of(range(20, 60), 3 * GIB, owner="slurm:17"),
    ]
    runs = [make_grant(0, 20.5, **JOB), make_grant(40, 50, **{**JOB, "allocation": "a2"})]
    assert used_by(rows, *runs) == [(20 * 1 + 1 * 3) * GIB, 10 * 3 * GIB]


def test_a_job_on_two_cards_has_on_each_what_it_uses_there(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    rows = [
        *(row for gpu in ("GPU-1", "GPU-2") for row in use_of(range(10), 9 * GIB, gpu=gpu)),
        *use_of(range(10), 2 * GIB, owner="slurm:17"),
        *use_of(range(10), 3 * GIB, gpu="GPU-2", owner="slurm:17"),
    ]
    on_both = [make_grant(0, 10, **JOB), make_grant(0, 10, ordinal=1, gpu_uuid="GPU-2", **JOB)]
    assert used_by(rows, *on_both) == [20 * GIB, 30 * GIB]


def test_a_whole_card_is_measured_by_the_card_whatever_its_source_names(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    rows = [*use_of(range(10), 9 * GIB), *use_of(range(10), 2 * GIB, owner="slurm:17")]
    assert used_by(rows, make_grant(0, 10, source="slurm", source_id="17")) == [90 * GIB]


def test_grants_that_name_one_owner_at_a_time_divide_its_use(
    used_by: Charged, overused: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """By their VRAM, in the seconds that they share: the parts sum to the use, and there is overuse of it once."""
    small = make_grant(0, 20, **{**JOB, "vram_bytes": 2 * GIB})
    large = make_grant(10, 30, **{**JOB, "allocation": "a2", "vram_bytes": 6 * GIB})
    rows = [*use_of(range(30), 9 * GIB), *use_of(range(30), 4 * GIB, owner="slurm:17")]
    assert used_by(rows, small, large) == [(10 * 4 + 10 * 1) * GIB, (10 * 3 + 10 * 4) * GIB]
    assert overused(rows, small, large) == [10 * 2 * GIB, 0]


def test_equal_rows_of_one_allocation_count_its_use_once(
    used_by: Charged, overused: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """Bytes that do not divide are the later row's, in whatever order they are read; 6 of 8 GiB are no overuse."""
    rows = [*use_of(range(10), 9 * GIB), *use_of(range(10), 6 * GIB + 1, owner="alloc:a1")]
    equal = [make_grant(0, 10, ordinal=ordinal, **SHARE) for ordinal in range(2)]
    for each in (equal, equal[::-1]):
        assert used_by(rows, *each) == [30 * GIB, 30 * GIB + 10]
        assert overused(rows, *each) == [0, 0]


def test_a_mig_record_that_does_not_name_its_instance_divides_its_owners_too(
    used_by: Charged, use_of: UseOf, make_grant: MakeGrant
) -> None:
    mig = {**JOB, "kind": GrantKind.MIG, "mig_uuid": None}
    rows = [*use_of(range(10), 30 * GIB), *use_of(range(10), 2 * GIB, owner="slurm:17")]
    assert used_by(rows, make_grant(0, 10, **mig), make_grant(0, 10, ordinal=1, **mig)) == [10 * GIB] * 2


def test_a_grant_is_read_with_its_source_and_its_name_there(
    ledger: Database, operator: Principal, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Both are of its allocation; without them no source's owner would ever be found."""
    grants = [make_grant(0, 10), make_grant(0, 10, **{**JOB, "allocation": "a2", "gpu_uuid": "GPU-2"})]
    put_grants(*grants)
    with ledger.read() as connection:
        load = partial(load_grants, connection, operator, stretch(0, 10))
        assert load() == grants
        assert [(each.source, each.source_id) for each in load(node="n1")] == [("service", None), ("slurm", "17")]
