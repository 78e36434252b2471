"""What each owner uses of a device: owners always sum to the device, whatever processes claim."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.owners.split import Claim, sole_owner, split_by_sms, split_compute, split_memory
from domain.samples import UNATTRIBUTED

PIDS = st.integers(1, 12)
OWNERS = st.dictionaries(PIDS, st.sampled_from(["alloc:a", "alloc:b", "pod:c"]))
CLAIMS = st.lists(st.builds(Claim, PIDS, st.none() | st.integers(0, 2**38), st.none() | st.integers(0, 3)))
# A percent is a whole number, so a ratio is a share of a hundred; finer ones come from means.
RATIOS = st.floats(0, 1, allow_subnormal=False)


def test_a_process_without_bytes_adds_nothing_to_its_owner() -> None:
    """A5: of two processes one is not told: the owner has at least the other's bytes."""
    claims = [Claim(1, 30), Claim(2, None), Claim(3, None)]

    assert split_memory(100, claims, {1: "alloc:a", 2: "alloc:a", 3: "alloc:b"}) == {"alloc:a": 30, UNATTRIBUTED: 70}


def test_containers_of_a_pod_are_summed_once() -> None:
    """A14: two containers with two processes each are one owner."""
    claims = [Claim(pid, 10 * pid) for pid in (1, 2, 3, 4)]

    assert split_memory(150, claims, dict.fromkeys((1, 2, 3, 4), "pod:c")) == {"pod:c": 100, UNATTRIBUTED: 50}


@given(used_bytes=st.integers(0, 2**42), claims=CLAIMS, owners=OWNERS)
def test_memory_sums_to_the_device_unless_processes_claim_more_than_is_used(
    used_bytes: int, claims: list[Claim], owners: dict[int, str]
) -> None:
    memory = split_memory(used_bytes, claims, owners)

    claimed = sum(claim.used_bytes or 0 for claim in claims)
    assert sum(memory.values()) == max(used_bytes, claimed)
    for owner in set(owners.values()):
        told = [c.used_bytes for c in claims if owners.get(c.pid) == owner and c.used_bytes is not None]
        assert memory.get(owner, 0) == sum(told)
        assert (owner in memory) == bool(told), "who is told of by no process has no part, not a part of 0"


def test_time_sliced_pods_have_what_each_computed() -> None:
    """A1: three pods share a card that is 90 % busy, and only one computes: 90/0/0, not 90/90/90."""
    owners = {1: "pod:a", 2: "pod:b", 3: "pod:c"}

    assert split_compute(0.9, {1: 90, 2: 0, 3: 0}, owners) == pytest.approx(
        {"pod:a": 0.9, "pod:b": 0.0, "pod:c": 0.0, UNATTRIBUTED: 0.0}
    )


def test_processes_that_add_up_to_more_than_the_card_was_busy_have_their_part_of_it() -> None:
    """A3: the samples add up to 260 %, as the card was busy for 100 %."""
    shares = split_compute(1.0, {1: 100, 2: 100, 3: 60}, {1: "alloc:a", 2: "alloc:a", 3: "alloc:b"})

    assert shares == pytest.approx({"alloc:a": 200 / 260, "alloc:b": 60 / 260, UNATTRIBUTED: 0.0})


def test_jobs_on_one_card_have_their_own_part_not_a_copy() -> None:
    """A7: jobs 11 and 12 on GPU 0 sum to the card."""
    shares = split_compute(0.8, {1: 60, 2: 20}, {1: "slurm:11", 2: "slurm:12"})

    assert shares == pytest.approx({"slurm:11": 0.6, "slurm:12": 0.2, UNATTRIBUTED: 0.0})


def test_what_no_process_is_told_to_have_computed_is_nobodys() -> None:
    assert split_compute(0.5, {1: 20, 9: 10}, {1: "alloc:a"}) == pytest.approx({"alloc:a": 0.2, UNATTRIBUTED: 0.3})
    assert split_compute(0.5, {}, {}) == {UNATTRIBUTED: 0.5}
    assert split_compute(0.0, {1: 20}, {1: "alloc:a"}) == {"alloc:a": 0.0, UNATTRIBUTED: 0.0}


@example(ratio=1.0, percents={1: 31, 2: 79, 3: 27}, owners={})
@given(ratio=RATIOS, percents=st.dictionaries(PIDS, st.integers(0, 100)), owners=OWNERS)
def test_compute_sums_to_the_device(ratio: float, percents: dict[int, int], owners: dict[int, str]) -> None:
    shares = split_compute(ratio, percents, owners)

    assert sum(shares.values()) == pytest.approx(ratio, abs=1e-9)
    assert all(0 <= share <= ratio for share in shares.values()), "a part is never more than the whole"
    for owner in shares.keys() - {UNATTRIBUTED}:
        told = sum(percent for pid, percent in percents.items() if owners.get(pid) == owner) / 100
        assert shares[owner] <= told + 1e-9, "nobody has more than the driver says of him"


@given(ratio=RATIOS, claims=CLAIMS, owners=OWNERS, sms=st.dictionaries(st.integers(0, 3), st.integers(1, 132)))
def test_an_instances_ratio_is_split_whole_or_not_at_all(
    ratio: float, claims: list[Claim], owners: dict[int, str], sms: dict[int, int]
) -> None:
    shares = split_by_sms(ratio, claims, owners, sms)

    used = {claim.ci_id for claim in claims}
    if shares is None:
        assert not used or not used <= sms.keys() or all(_is_shared(ci_id, claims, owners) for ci_id in used)
    else:
        assert sum(shares.values()) == pytest.approx(ratio, abs=1e-9)
        assert used <= sms.keys()
        assert all(0 <= share <= ratio for share in shares.values())


def _is_shared(ci_id: int | None, claims: list[Claim], owners: dict[int, str]) -> bool:
    return len({owners.get(claim.pid) for claim in claims if claim.ci_id == ci_id}) > 1


def test_compute_instances_have_their_part_of_the_sms() -> None:
    """M6: 1c.3g and 2c.3g of one GPU instance."""
    claims = [Claim(1, 0, 0), Claim(2, 0, 1), Claim(3, 0, 1)]
    sms = {0: 16, 1: 32, 2: 16}

    assert split_by_sms(0.9, claims, {1: "alloc:a", 2: "alloc:b", 3: "alloc:b"}, sms) == pytest.approx(
        {"alloc:a": 0.3, "alloc:b": 0.6, UNATTRIBUTED: 0.0}
    )
    assert split_by_sms(0.9, claims, {1: "alloc:a", 2: "alloc:b", 3: "alloc:c"}, sms) == pytest.approx(
        {"alloc:a": 0.3, UNATTRIBUTED: 0.6}
    ), "what two owners share of a compute instance is told of neither"
    assert split_by_sms(0.9, claims[1:], {2: "alloc:b", 3: "alloc:c"}, sms) is None
    assert split_by_sms(0.9, claims, {1: "alloc:a", 2: "alloc:b", 3: "alloc:b"}, {0: 16}) is None


def test_a_device_is_one_owners_where_all_its_processes_are() -> None:
    claims = [Claim(1, 0), Claim(2, 0)]

    assert sole_owner(claims, dict.fromkeys((1, 2), "alloc:a")) == "alloc:a"
    assert sole_owner(claims, {1: "alloc:a"}) is None
    assert sole_owner(claims, {}) == sole_owner([], {}) == UNATTRIBUTED


def test_a_process_that_is_proved_to_be_nobodys_takes_nothing_from_who_computes() -> None:
    """One that is proved to be nobody's is no user; one of which nothing is proved may be anybody's."""
    claims, sms = [Claim(1, 0, 0), Claim(2, 0, 1), Claim(9, 0, 0), Claim(9, 0, 2)], {0: 16, 1: 32, 2: 16}
    owners = {1: "alloc:a", 2: "alloc:b", 9: UNATTRIBUTED}

    assert sole_owner([claims[0], claims[2]], owners) == "alloc:a"
    assert sole_owner([claims[0], claims[2]], {1: "alloc:a"}) is None
    assert sole_owner([claims[2]], owners) == UNATTRIBUTED
    assert split_by_sms(0.9, claims, owners, sms) == pytest.approx({"alloc:a": 0.3, "alloc:b": 0.6, UNATTRIBUTED: 0})
