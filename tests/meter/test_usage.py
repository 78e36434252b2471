"""Granted quantities of any interval: exact at any second, grouped as asked, and the same as what is charged."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from domain.grants import Grant, GrantKind
from domain.period import Period
from domain.tenants import Tenant
from meter.evidence.evidence import Evidence
from meter.rating.rating import rate
from meter.rating.usage import GROUPINGS, UsageRow, parse_grouping, usage
from tests.meter.fixture_types import MakeBook, MakeGrant, Observe, UseOf

US = 1_000_000
GIB = 2**30
AskUsage = Callable[..., list[UsageRow]]
SPAN_S = 7_200


@pytest.fixture
def ask(observe: Observe, hour_s: int) -> AskUsage:
    """Usage of grants in [start, end), by evidence that is made of rows for the hour and node that is asked for."""

    def asked(
        grants: list[Grant], start: float, end: float, by: str = "tenant", rows: list[Any] | None = None
    ) -> list[UsageRow]:
        period = Period(round((hour_s + start) * US), round((hour_s + end) * US))

        def evidence_of(node: str, hour: Period) -> Evidence:
            first = hour.start_us // US - hour_s
            assert node
            return observe(rows or [], start=first, end=first + 3_600, node=node)

        return usage(grants, period, parse_grouping(by), evidence_of)

    return asked


def test_any_second_may_be_a_border(ask: AskUsage, make_grant: MakeGrant, use_of: UseOf) -> None:
    """Of a grant from 10.5 to 20 s the seconds 11 to 19; of the interval from 14.2 to 17 its seconds 15 and 16.

    A hole is not covered, also where a bill would bridge it.
    """
    grant, rows = make_grant(10.5, 20), use_of([12, 13, 14, 16, *range(17, 100)], 3 * GIB)
    (row,) = ask([grant], 0, 3_600, rows=rows)
    assert row == UsageRow({"tenant": "acme"}, 9, 9_000, 9 * 24 * GIB, 7 * 3 * GIB, 7)
    (row,) = ask([grant], 14.2, 17, rows=rows)
    assert row == UsageRow({"tenant": "acme"}, 2, 2_000, 2 * 24 * GIB, 3 * GIB, 1)


@pytest.mark.parametrize(("start", "end"), [(0, 10), (20, 30), (100, 100)])
def test_where_nothing_was_granted_there_is_no_row(ask: AskUsage, make_grant: MakeGrant, start: int, end: int) -> None:
    assert ask([make_grant(10, 20)], start, end) == []


def test_where_there_is_no_device_use_is_null_and_not_nothing(ask: AskUsage, make_grant: MakeGrant) -> None:
    """A card that was never sampled was covered for 0 s, and of what it used nothing is known."""
    record, card = make_grant(0, 10, gpu_uuid=None, node="", project="q"), make_grant(0, 10)
    rows = {
        row.group["project"]: (row.used_vram_byte_seconds, row.covered_seconds)
        for row in ask([record, card], 0, 60, "project")
    }
    assert rows == {"q": (None, None), "p": (None, 0)}
    (both,) = ask([record, card], 0, 60)
    assert (both.granted_seconds, both.used_vram_byte_seconds, both.covered_seconds) == (20, None, 0)


def test_seconds_in_which_vram_was_not_read_are_not_covered_and_not_zero(
    ask: AskUsage, make_grant: MakeGrant, use_of: UseOf
) -> None:
    """A card that was up and did not tell its memory, as vGPU hosts do; where it told for a while, that counts."""
    up = [("gpu_up", "GPU-1", "", "", second, 1.0) for second in range(60)]
    (row,) = ask([make_grant(0, 60)], 0, 60, rows=up)
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (None, 0)
    (row,) = ask([make_grant(0, 60)], 0, 60, rows=[*up, *use_of(range(10, 20), 0)])
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (0, 10)
    # A group has the use of those of its grants whose memory was read.
    grants = [make_grant(0, 60), make_grant(0, 60, allocation="a2", gpu_uuid="GPU-2")]
    (row,) = ask(grants, 0, 60, rows=[*up, *use_of(range(5), GIB, gpu="GPU-2")])
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (5 * GIB, 5)


def test_a_share_is_covered_where_owners_were_told_apart(ask: AskUsage, make_grant: MakeGrant, use_of: UseOf) -> None:
    """An owner without a line then used nothing; "unattributed" alone says nothing of anybody."""
    share = make_grant(0, 60, kind=GrantKind.SHARE, compute_units=500)
    rows = [
        *use_of(range(60), 9 * GIB),
        *use_of(range(30), 9 * GIB, owner="unattributed"),
        *use_of(range(30, 40), 2 * GIB, owner="alloc:a1"),
        *use_of(range(40, 50), 2 * GIB, owner="alloc:other"),
    ]
    (row,) = ask([share], 0, 60, rows=rows)
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (10 * 2 * GIB, 20)
    (row,) = ask([share], 0, 30, rows=rows)
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (None, 0)


def test_a_mig_instance_is_covered_by_its_own_readings(ask: AskUsage, make_grant: MakeGrant, use_of: UseOf) -> None:
    """Whatever the card and the other instances say."""
    size = {"kind": GrantKind.MIG, "compute_units": 16, "compute_units_total": 132, "vram_bytes": 10 * GIB}
    rows = [*use_of(range(60), 30 * GIB), *use_of(range(10), 3 * GIB, mig="MIG-1"), *use_of(range(60), mig="MIG-2")]
    (row,) = ask([make_grant(0, 60, mig_uuid="MIG-1", **size)], 0, 60, rows=rows)
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (10 * 3 * GIB, 10)
    (row,) = ask([make_grant(0, 60, mig_uuid="MIG-3", **size)], 0, 60, rows=rows)
    assert (row.used_vram_byte_seconds, row.covered_seconds) == (None, 0)


def test_groups_are_what_grants_say(ask: AskUsage, make_grant: MakeGrant) -> None:
    grants = [
        make_grant(0, 10, allocation="a1", gpu_uuid=None),
        make_grant(0, 20, allocation="a2", tenant="globex", gpu_uuid=None, sku="h100-80g"),
        make_grant(0, 30, allocation="a3", gpu_uuid=None),
    ]
    assert [(row.group, row.granted_seconds) for row in ask(grants, 0, 60, "tenant,sku")] == [
        ({"tenant": "acme", "sku": "rtx4090-24g"}, 40),
        ({"tenant": "globex", "sku": "h100-80g"}, 20),
    ]
    assert [(row.group, row.granted_seconds) for row in ask(grants, 0, 60, "")] == [({}, 60)]
    assert [row.group for row in ask(grants, 0, 60, "gpu_uuid")] == [{"gpu_uuid": None}]


@pytest.mark.parametrize("name", GROUPINGS)
def test_every_grouping_names_a_field_of_the_grant(ask: AskUsage, make_grant: MakeGrant, name: str) -> None:
    grant = make_grant(0, 10)
    (row,) = ask([grant], 0, 60, name)
    assert row.group == {name: str(getattr(grant, name))}


@pytest.mark.parametrize(
    ("text", "columns"), [("tenant", ("tenant",)), (" tenant , sku ", ("tenant", "sku")), ("", ()), (",", ())]
)
def test_a_grouping_is_read(text: str, columns: tuple[str, ...]) -> None:
    assert parse_grouping(text) == columns


@pytest.mark.parametrize("text", ["colour", "tenant,colour", "Tenant", "tenant;drop"])
def test_an_unknown_grouping_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot group by .*: use tenant, project, allocation, sku, model, kind"):
        parse_grouping(text)


def test_milli_gpu_seconds_are_rounded_once_for_the_group(ask: AskUsage, make_grant: MakeGrant) -> None:
    """Three times 1/7 of a card for a second are 428.57 thousandths, and not three times 143."""
    sevenths = [
        make_grant(
            0, 1, allocation=f"a{n}", kind=GrantKind.SHARE, compute_units=14, compute_units_total=98, gpu_uuid=None
        )
        for n in range(3)
    ]
    (row,) = ask(sevenths, 0, 60)
    assert row.milli_gpu_seconds == 429
    half = [
        make_grant(0, 1, kind=GrantKind.SHARE, compute_units=1, compute_units_total=n, gpu_uuid=None) for n in (80, 16)
    ]
    assert [ask([each], 0, 1)[0].milli_gpu_seconds for each in half] == [12, 62]


def test_quantities_of_any_size_stay_whole(ask: AskUsage, make_grant: MakeGrant) -> None:
    many = [make_grant(0, 3_600, allocation=f"a{n}", gpu_uuid=None, vram_bytes=2**47) for n in range(100)]
    (row,) = ask(many, 0, 3_600)
    assert row.vram_byte_seconds == 100 * 3_600 * 2**47 > 2**63


_grants = st.lists(
    st.fixed_dictionaries(
        {
            "start": st.integers(0, SPAN_S * US),
            "length": st.integers(0, SPAN_S * US),
            "gpu_uuid": st.sampled_from(["GPU-1", "GPU-2", None]),
            "project": st.sampled_from(["p", "q"]),
        }
    ),
    min_size=1,
    max_size=4,
)


def _make(make_grant: MakeGrant, words: list[dict[str, Any]]) -> list[Grant]:
    return [
        make_grant(
            each["start"] / US,
            (each["start"] + each["length"]) / US,
            allocation=f"a{number}",
            gpu_uuid=each["gpu_uuid"],
            project=each["project"],
        )
        for number, each in enumerate(words)
    ]


def _total(rows: list[UsageRow]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total["granted"] += row.granted_seconds
        total["milli"] += row.milli_gpu_seconds
        total["vram"] += row.vram_byte_seconds
        total["used"] += row.used_vram_byte_seconds or 0
        total["covered"] += row.covered_seconds or 0
    return +total


@given(words=_grants, cuts=st.lists(st.integers(1, 2 * SPAN_S * US), max_size=3, unique=True))
@settings(
    max_examples=settings().max_examples * 25 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_parts_of_an_interval_sum_to_the_whole(
    ask: AskUsage, make_grant: MakeGrant, use_of: UseOf, words: list[dict[str, Any]], cuts: list[int]
) -> None:
    """However it is cut and however it is grouped."""
    grants, rows = _make(make_grant, words), use_of(range(0, SPAN_S, 7), 5 * GIB)
    borders = [0, *sorted(cuts), 2 * SPAN_S * US]
    whole = _total(ask(grants, 0, 2 * SPAN_S, "tenant", rows))
    parts = [row for a, b in pairwise(borders) for row in ask(grants, a / US, b / US, "tenant", rows)]
    assert _total(parts) == whole
    assert _total(ask(grants, 0, 2 * SPAN_S, "project,allocation", rows)) == whole


@given(words=_grants)
@settings(
    max_examples=settings().max_examples * 25 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_usage_of_whole_hours_is_what_their_charges_say(
    ask: AskUsage,
    observe: Observe,
    make_grant: MakeGrant,
    make_book: MakeBook,
    tenants: dict[str, Tenant],
    use_of: UseOf,
    words: list[dict[str, Any]],
) -> None:
    """Granted and covered seconds agree with those of VRAM in the ledger, whatever is billed of them."""
    up = [("gpu_up", "GPU-1", "", "", second, 1.0) for second in range(0, SPAN_S, 5)]
    grants, rows = _make(make_grant, words), [*up, *use_of(range(0, SPAN_S, 7), 5 * GIB)]
    granted: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for hour in range(0, 2 * SPAN_S, 3_600):
        for is_record in (True, False):
            of_node = [each for each in grants if each.is_record_only is is_record]
            evidence = observe([] if is_record else rows, start=hour, end=hour + 3_600)
            for charge in rate(evidence, of_node, tenants, make_book()):
                if charge.dimension == "vram":
                    granted[charge.allocation] += charge.granted_seconds
                    covered[charge.allocation] += charge.covered_seconds or 0
    found = {row.group["allocation"]: row for row in ask(grants, 0, 2 * SPAN_S, "allocation", rows)}
    assert {name: row.granted_seconds for name, row in found.items() if row.granted_seconds} == +granted
    assert {name: row.covered_seconds for name, row in found.items() if row.covered_seconds} == +covered
