"""By which names a grant's use is known, and how several grants divide what one of them is for."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.grants import Grant, GrantKind
from domain.owners import divide_owner, owners_of

US = 1_000_000
_GRANTS = st.lists(
    st.tuples(st.integers(0, 9 * US), st.integers(0, 9 * US), st.integers(0, 2**63 - 1)), min_size=1, max_size=5
).map(
    lambda drawn: [
        _grant(ordinal=number, start_us=start, end_us=start + length, vram_bytes=vram)
        for number, (start, length, vram) in enumerate(drawn)
    ]
)


def _grant(**changes: Any) -> Grant:
    values: dict[str, Any] = {
        "allocation": "a1",
        "ordinal": 0,
        "tenant": "acme",
        "project": "p",
        "node": "n1",
        "gpu_uuid": "GPU-1",
        "mig_uuid": None,
        "kind": GrantKind.SHARE,
        "model": "NVIDIA L4",
        "sku": "l4-24g",
        "compute_units": 500,
        "compute_units_total": 1_000,
        "vram_bytes": 100,
        "start_us": 0,
        "end_us": 10 * US,
    }
    return Grant(**{**values, **changes})


@pytest.mark.parametrize(
    ("source", "source_id", "others"),
    [
        ("service", None, []),
        ("slurm", None, []),
        ("slurm", "17", ["slurm:17"]),
        ("pod", "2fc932ce-0b5a-4c3e-9d6d-0a4f5b6c7d8e", ["pod:2fc932ce-0b5a-4c3e-9d6d-0a4f5b6c7d8e"]),
        ("unit", "serve.service", ["unit:serve.service"]),
        ("batch-2", "slurm:17", ["slurm:17"]),
        ("slurm", "pod:u", ["pod:u"]),
        ("batch-2", "17", []),
        ("slurm-2", "17", []),
        ("batch-2", "slurm", []),
        ("batch-2", "job:17", []),
        ("batch-2", "alloc:a2", []),
        ("service", "unattributed", []),
    ],
)
def test_a_grant_has_the_label_of_its_allocation_and_the_one_its_source_can_prove(
    source: str, source_id: str | None, others: list[str]
) -> None:
    assert owners_of(_grant(source=source, source_id=source_id)) == ("alloc:a1", *others)


def test_no_source_makes_another_allocations_label_its_own() -> None:
    """Else a file could take what it likes off a neighbour's use."""
    for source in ("batch-2", "slurm", "pod", "unit", "alloc"):
        assert "alloc:a2" not in owners_of(_grant(source=source, source_id="alloc:a2"))
        assert "alloc:a2" not in owners_of(_grant(source=source, source_id="a2"))


def test_one_grant_has_all_of_its_own_seconds() -> None:
    grant = _grant(start_us=500_000, end_us=2_000_001, vram_bytes=7)
    assert list(divide_owner([grant])) == [(grant, 1, 3, 0, 7, 7)]
    assert list(divide_owner([_grant(start_us=1, end_us=US)])) == []


def test_a_name_that_comes_back_is_another_grants_in_its_own_seconds() -> None:
    first, again = _grant(end_us=3 * US), _grant(allocation="a2", start_us=3 * US, end_us=5 * US)
    assert [part[:3] for part in divide_owner([first, again])] == [(first, 0, 3), (again, 3, 5)]


def test_who_holds_at_the_same_time_has_a_part_as_large_as_its_vram() -> None:
    small, large = _grant(end_us=4 * US, vram_bytes=1), _grant(ordinal=1, start_us=2 * US, end_us=6 * US, vram_bytes=3)
    assert list(divide_owner([small, large])) == [
        (small, 0, 2, 0, 1, 1),
        (small, 2, 4, 0, 1, 4),
        (large, 2, 4, 1, 4, 4),
        (large, 4, 6, 0, 3, 3),
    ]


def test_grants_of_no_bytes_have_equal_parts_and_next_to_nothing_beside_others() -> None:
    none, nothing = _grant(vram_bytes=0), _grant(ordinal=1, vram_bytes=0)
    assert [part[3:] for part in divide_owner([none, nothing])] == [(0, 1, 2), (1, 2, 2)]
    assert [part[3:] for part in divide_owner([none, _grant(ordinal=1, vram_bytes=2**40)])] == [
        (0, 1, 2**40 + 1),
        (1, 2**40 + 1, 2**40 + 1),
    ]


@given(grants=_GRANTS, value=st.integers(0, 2**50 - 1))
def test_the_parts_of_every_second_sum_to_what_was_used_and_none_is_of_a_second_not_held(
    grants: list[Grant], value: int
) -> None:
    parts: Counter[int] = Counter()
    held: Counter[tuple[int, int]] = Counter()
    for grant, from_s, to_s, before, upto, whole in divide_owner(grants):
        for second in range(from_s, to_s):
            held[grant.ordinal, second] += 1
            parts[second] += value * upto // whole - value * before // whole
    expected = {
        (each.ordinal, second): 1
        for each in grants
        for second in range(20)
        if each.start_us <= second * US < each.end_us  # type: ignore[operator] # none of them is open
    }
    assert held == expected
    assert parts == {second: value for _, second in expected}
