"""Records never give the same capacity twice; compared with an oracle that looks at every instant."""

from collections import defaultdict
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from allocator.records.csv_rows import Problems
from allocator.records.overlaps import Claim, find_overlaps
from domain.grants import OPEN_END_US, GrantKind
from domain.period import Period
from store.capacity import DevicePeriod

_NUMBERS = count()
CARD = DevicePeriod("GPU-0", "n1", 0, "m", "m", 1_000, 110, 10, False, (), None, None, Period(0, OPEN_END_US))


def claim(
    start_us: int,
    end_us: int,
    units: int = 500,
    vram_bytes: int = 0,
    *,
    line: int | None = 2,
    kind: GrantKind = GrantKind.SHARE,
    mig_uuid: str | None = None,
    total: int = 1_000,
    allocation: str | None = None,
) -> Claim:
    """Each of an allocation of its own, unless one is named."""
    return Claim(
        line,
        allocation or f"job-{next(_NUMBERS)}",
        "GPU-0",
        mig_uuid,
        kind,
        units,
        total,
        vram_bytes,
        Period(start_us, end_us),
    )


def problems(*claims: Claim, known: tuple[DevicePeriod, ...] = (CARD,)) -> list[str]:
    found = Problems()
    find_overlaps(claims, {"GPU-0": known}, found)
    return found._shown


def test_the_line_that_began_last_is_named_with_the_instant() -> None:
    whole = claim(0, 10, 1_000, kind=GrantKind.WHOLE, line=2)
    (said,) = problems(whole, claim(9, 20, line=7))
    assert said == (
        "line 7: more than all of the card 'GPU-0' is granted at 1970-01-01T00:00:00.000009Z: end another before, or "
        "write less"
    )


def test_grants_end_to_start_do_not_overlap() -> None:
    assert problems(claim(0, 10, 1_000), claim(10, 20, 1_000), claim(20, OPEN_END_US, 1_000)) == []


def test_a_grant_of_no_length_takes_nothing() -> None:
    assert problems(claim(0, 10, 1_000), claim(5, 5, 1_000)) == []


def test_what_is_in_the_database_counts_and_is_not_blamed() -> None:
    assert problems(claim(0, 10, 1_000, line=None), claim(0, 10, 1_000, line=None)) == []
    (said,) = problems(claim(5, 10, 1_000, line=None), claim(0, 20, 1, line=4))
    assert said.startswith("line 4: ")


def test_vram_is_the_usable_one() -> None:
    assert problems(claim(0, 10, 1_000, 100)) == []
    (said,) = problems(claim(0, 10, 1_000, 101))
    assert "101 bytes of VRAM of the card 'GPU-0' are granted, of 100 usable" in said


def test_a_card_that_shrinks_under_its_grants_is_seen() -> None:
    smaller = DevicePeriod("GPU-0", "n1", 0, "m", "m", 1_000, 60, 10, False, (), None, None, Period(5, OPEN_END_US))
    before = DevicePeriod("GPU-0", "n1", 0, "m", "m", 1_000, 110, 10, False, (), None, None, Period(0, 5))
    (said,) = problems(claim(0, 10, 500, 60), known=(before, smaller))
    assert said.endswith("at 1970-01-01T00:00:00.000005Z: end another before, or write less")


def test_a_mig_instance_has_one_holder_even_where_its_card_is_unknown() -> None:
    one, two = (claim(0, 10, 14, kind=GrantKind.MIG, mig_uuid="MIG-1", total=98, line=line) for line in (2, 3))
    (said,) = problems(one, two, known=())
    assert said == "line 3: the MIG instance 'MIG-1' is granted twice at 1970-01-01T00:00:00Z: end the first before"


def test_seven_rounded_instances_of_an_unknown_card_are_not_more_than_it() -> None:
    """1/7 is 143 thousandths in a record, and seven of them are 1,001."""
    instances = [claim(0, 10, 143, kind=GrantKind.MIG, mig_uuid=f"MIG-{n}") for n in range(7)]
    assert problems(*instances, known=()) == []


def test_an_allocation_has_one_share_of_a_card_at_a_time() -> None:
    """Use is known by owner: each of two shares would bear all that the allocation used."""
    (said,) = problems(claim(0, 10, 100, allocation="a", line=2), claim(9, 20, 100, allocation="a", line=5))
    assert said == (
        "line 5: 'a' has several shares of the card 'GPU-0' at 1970-01-01T00:00:00.000009Z: write them as one row"
    )
    assert problems(claim(0, 10, 100, allocation="a"), claim(10, 20, 100, allocation="a"), claim(0, 20, 100)) == []
    assert problems(claim(0, 10, 100, allocation="a"), claim(0, 10, 100, allocation="a"), known=()) != []


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 6), st.sampled_from([250, 300, 500, 1_000]), st.integers(0, 60)),
        max_size=8,
    )
)
def test_exactly_the_files_that_grant_too_much_at_some_instant_are_refused(
    spans: list[tuple[int, int, int, int]],
) -> None:
    claims = [
        claim(start, start + length, units, vram, line=line) for line, (start, length, units, vram) in enumerate(spans)
    ]
    units: dict[int, int] = defaultdict(int)
    vram: dict[int, int] = defaultdict(int)
    for start, length, each_units, each_vram in spans:
        for instant in range(start, start + length):
            units[instant] += each_units
            vram[instant] += each_vram
    is_too_much = max(units.values(), default=0) > 1_000 or max(vram.values(), default=0) > 100
    assert bool(problems(*claims)) == is_too_much
