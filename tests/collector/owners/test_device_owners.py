"""The owners of one device as they leave the node: whatever is claimed, they sum to it or are missing with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.owners.cgroups import read_cgroup
from collector.owners.device_owners import Compute, DeviceOwners, compute_by_samples, compute_by_sms
from collector.owners.split import Claim
from collector.ranges import refuse_garbage
from collector.sample_runs import device_labels, part_runs
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY, Series
from tests.collector.patience import now_s
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

PIDS = st.integers(1, 12)
BYTES = st.none() | st.integers(0, 2**36)
CLAIMS = st.lists(st.builds(Claim, PIDS, BYTES, st.integers(0, 2)), max_size=8)
OWNERS = st.dictionaries(PIDS, st.sampled_from(["alloc:a", "alloc:b", "pod:c"]))
STATES = st.sampled_from([FieldState.UNSUPPORTED, FieldState.ERROR])
PERCENTS = st.dictionaries(PIDS, st.integers(0, 100))
TOTALS = st.none() | st.floats(0, 1, allow_subnormal=False)


def _check(reading: DeviceReading, series: Series, claims: list[Claim]) -> None:
    """What leaves the node sums to the device, and what is missing says why."""
    used_bytes, total = reading.values[GPU_MEMORY_USED], reading.values[series]
    claimed = sum(claim.used_bytes or 0 for claim in claims)
    checked = refuse_garbage(reading)
    is_contradiction = bool(reading.owners) and used_bytes is not None and claimed > used_bytes
    assert (OWNER_MEMORY in checked.refused) == is_contradiction
    reading = checked.reading
    told = {owner: use.memory_bytes for owner, use in reading.owners.items() if use.memory_bytes is not None}
    assert (OWNER_MEMORY in reading.missing) == (not told or is_contradiction)
    ratios = [use.compute_ratio for use in reading.owners.values()]
    if told:
        assert sum(told.values()) == used_bytes
        assert UNATTRIBUTED in told
    assert OwnerUse(None, None) not in reading.owners.values()
    if not is_contradiction:
        assert (OWNER_COMPUTE in reading.missing) == (set(ratios) <= {None})
        assert (OWNER_COMPUTE in reading.bases) == (OWNER_COMPUTE not in reading.missing)
        if OWNER_COMPUTE in reading.bases:
            assert reading.owners[UNATTRIBUTED].compute_ratio is not None
            assert sum(ratio or 0 for ratio in ratios) == pytest.approx(total, abs=1e-9)
            _check_untold(reading)


def _check_untold(reading: DeviceReading) -> None:
    """Who shares what is not split has no ratio, which is not 0."""
    proved = {owner: use.compute_ratio for owner, use in reading.owners.items() if owner != UNATTRIBUTED}
    basis = reading.bases[OWNER_COMPUTE].basis
    if basis == "shared":
        assert set(proved.values()) <= {None}
    elif basis == "sm_share":
        assert 0 not in proved.values() or reading.values[GPU_GR_ACTIVE] == 0
    else:
        assert None not in proved.values()


@given(
    used_bytes=st.none() | st.integers(0, 2**38), busy=TOTALS, claims=CLAIMS, owners=OWNERS, percents=PERCENTS | STATES
)
def test_owners_of_a_card_sum_to_it(
    used_bytes: int | None,
    busy: float | None,
    claims: list[Claim],
    owners: dict[int, str],
    percents: dict[int, int] | FieldState,
) -> None:
    said = DeviceReading("GPU-a", None, {GPU_UP: 1, GPU_MEMORY_USED: used_bytes, GPU_BUSY: busy}, {})
    compute = compute_by_samples(said, claims, owners, percents)

    _check(DeviceOwners().told(said, claims, owners, compute), GPU_BUSY, claims)


@given(
    used_bytes=st.none() | st.integers(0, 2**38),
    active=TOTALS,
    claims=CLAIMS,
    owners=OWNERS,
    sms=st.dictionaries(st.integers(0, 2), st.integers(1, 132)) | STATES,
)
def test_owners_of_an_instance_sum_to_it(
    used_bytes: int | None,
    active: float | None,
    claims: list[Claim],
    owners: dict[int, str],
    sms: dict[int, int] | FieldState,
) -> None:
    """M6."""
    said = DeviceReading("GPU-a", "MIG-a", {GPU_UP: 1, GPU_MEMORY_USED: used_bytes, GPU_GR_ACTIVE: active}, {})
    compute = compute_by_sms(said, claims, owners, lambda: sms)

    reading = DeviceOwners().told(said, claims, owners, compute)

    _check(reading, GPU_GR_ACTIVE, claims)
    if reading.split is not None:
        assert sum(reading.split.parts.values()) == pytest.approx(1)
        assert reading.split.parts.keys() <= {UNATTRIBUTED, *owners.values()}
        assert UNATTRIBUTED in reading.split.parts


def test_how_compute_is_split_is_known_where_its_ratio_is_not() -> None:
    """M6: the driver has no performance metrics of an A100's instances."""
    claims, owners = [Claim(1, 10, 0), Claim(2, 20, 1)], {1: "alloc:a", 2: "alloc:b"}
    said = DeviceReading("GPU-a", "MIG-a", {GPU_MEMORY_USED: 40}, {}, missing={GPU_GR_ACTIVE: FieldState.UNSUPPORTED})
    compute = compute_by_sms(said, claims, owners, lambda: {0: 14, 1: 42})

    reading = DeviceOwners().told(said, claims, owners, compute)

    assert reading.split == ({"alloc:a": 0.25, "alloc:b": 0.75, UNATTRIBUTED: 0}, Basis("nvml", "sm_share"))
    assert reading.missing[OWNER_COMPUTE] is FieldState.UNSUPPORTED
    assert {use.compute_ratio for use in reading.owners.values()} == {None}


@pytest.mark.parametrize("owners", [{1: "alloc:a", 2: "alloc:b"}, {1: "alloc:a"}], ids=["two", "one, and unproved"])
def test_what_several_share_is_nobodys_where_no_process_is_sampled(owners: dict[int, str]) -> None:
    """Time slicing on a card that samples none: none of them has a ratio, not even one of 0, and all sum to it."""
    claims = [Claim(1, 10), Claim(2, 20)]
    said = DeviceReading("GPU-a", None, {GPU_MEMORY_USED: 40, GPU_BUSY: 0.9}, {})
    compute = compute_by_samples(said, claims, owners, FieldState.UNSUPPORTED)

    reading = DeviceOwners().told(said, claims, owners, compute)

    assert {owner: use.compute_ratio for owner, use in reading.owners.items()} == {
        **dict.fromkeys(owners.values()),
        UNATTRIBUTED: 0.9,
    }
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "shared")
    assert OWNER_COMPUTE not in reading.missing


@pytest.mark.parametrize("state", [FieldState.ERROR, FieldState.NO_PERMISSION, FieldState.NOT_READY])
def test_samples_that_could_be_had_are_missing_with_their_reason(state: FieldState) -> None:
    """A driver that fails to sample has not said that none can be told apart."""
    claims, owners = [Claim(1, 10), Claim(2, 20)], {1: "alloc:a", 2: "alloc:b"}
    said = DeviceReading("GPU-a", None, {GPU_MEMORY_USED: 40, GPU_BUSY: 0.9}, {})

    assert compute_by_samples(said, claims, owners, state) == ({}, state, None)


def test_one_who_shares_a_compute_instance_has_no_zero_beside_one_who_does_not() -> None:
    """M6: alloc:a has a compute instance, alloc:b and alloc:c share another, of which neither's part is told."""
    claims, owners = [Claim(1, 10, 0), Claim(2, 10, 1), Claim(3, 10, 1)], {1: "alloc:a", 2: "alloc:b", 3: "alloc:c"}
    said = DeviceReading("GPU-a", "MIG-a", {GPU_MEMORY_USED: 40, GPU_GR_ACTIVE: 0.8}, {})
    compute = compute_by_sms(said, claims, owners, lambda: {0: 14, 1: 42})

    reading = DeviceOwners().told(said, claims, owners, compute)

    assert {owner: use.compute_ratio for owner, use in reading.owners.items()} == {
        "alloc:a": pytest.approx(0.2),
        "alloc:b": None,
        "alloc:c": None,
        UNATTRIBUTED: pytest.approx(0.6),
    }
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sm_share")


@pytest.mark.parametrize("sms", [{1: 42}, {}], ids=["one unknown", "none known"])
def test_compute_instances_of_unknown_size_are_nobodys(sms: dict[int, int]) -> None:
    """M6."""
    claims, owners = [Claim(1, 10, 0), Claim(2, 10, 1)], {1: "alloc:a", 2: "alloc:b"}
    said = DeviceReading("GPU-a", "MIG-a", {GPU_MEMORY_USED: 40, GPU_GR_ACTIVE: 0.8}, {})

    compute = compute_by_sms(said, claims, owners, lambda: sms)

    assert (compute.by_owner, compute.how) == ({UNATTRIBUTED: 0.8}, Basis("nvml", "shared"))


def test_one_compute_instance_is_shared_whatever_its_size() -> None:
    """Nothing is to be split by SMs, so a driver that fails to tell them costs nothing."""
    claims, owners = [Claim(1, 10, 0), Claim(2, 10, 0)], {1: "alloc:a", 2: "alloc:b"}
    said = DeviceReading("GPU-a", "MIG-a", {GPU_MEMORY_USED: 40, GPU_GR_ACTIVE: 0.8}, {})

    compute = compute_by_sms(said, claims, owners, lambda: FieldState.ERROR)

    assert (compute.by_owner, compute.how) == ({UNATTRIBUTED: 0.8}, Basis("nvml", "shared"))


def test_memory_that_is_not_told_is_not_split() -> None:
    said = DeviceReading(
        "GPU-a", None, {GPU_UP: 1, GPU_MEMORY_USED: None}, {}, missing={GPU_MEMORY_USED: FieldState.ERROR}
    )

    reading = DeviceOwners().told(said, [], {}, Compute({UNATTRIBUTED: 0.5}, FieldState.UNSUPPORTED))

    assert reading.owners == {}
    assert reading.missing == dict.fromkeys((GPU_MEMORY_USED, OWNER_MEMORY, OWNER_COMPUTE), FieldState.ERROR)


def test_an_owners_name_comes_back_from_the_store_as_it_was(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    """R17: quotes, backslashes and whatever else root has put into a name are escaped on the way."""
    owner = read_cgroup("0::/system.slice/gputab-team\\x20\\x22a\\x22\\x5cb.scope\n").owner
    assert owner == 'alloc:team "a"\\b'
    said = DeviceReading("GPU-r17", None, {GPU_UP: 1, GPU_MEMORY_USED: 100}, {})
    second_s = now_s() - 5
    reading = DeviceOwners().told(said, [Claim(7, 40)], {7: owner}, Compute({}, FieldState.UNSUPPORTED))

    pusher.send(part_runs(reading, device_labels(unique_node, reading), second_s))
    pusher.flush()

    frame = reader.export(Selector((OWNER_MEMORY,), {"node": unique_node}), second_s, second_s + 1).frame
    assert dict(zip(frame["owner"], frame["value"], strict=True)) == {owner: 40, UNATTRIBUTED: 60}
