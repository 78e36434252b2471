"""The ground truth is a pure function, and what it says could be said by real cards."""

import itertools
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.ranges import refuse_garbage
from collector.simulation.fleet import RTX_4090, Fleet, demo_fleet
from collector.simulation.truth import Span, truth
from collector.simulation.workloads import PATTERNS, Workload
from collector.simulation.world import Tenancy, World
from domain.errors import InputError
from domain.mig import geometry_of, taken_by
from domain.samples import UNATTRIBUTED, allocation_owner
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.worlds import CARDS, FLEET, SECONDS, SPAN_S, START_S, WHOLE, WORLDS


@settings(max_examples=settings().max_examples * 60 // 100)
@given(world=WORLDS, second_s=SECONDS)
def test_owners_sum_to_the_device_and_everything_is_within_the_card(world: World, second_s: int) -> None:
    for gpu_uuid in FLEET.cards:
        for reading in world.readings(gpu_uuid, second_s):
            if reading.values[GPU_UP] == 0:
                assert reading.values == {GPU_UP: 0}
                assert reading.owners == {}
                continue
            assert refuse_garbage(reading).refused == ()
            used_bytes = reading.values[GPU_MEMORY_USED]
            assert isinstance(used_bytes, int)
            if reading.owners:
                assert sum(use.memory_bytes or 0 for use in reading.owners.values()) == used_bytes
            assert used_bytes <= reading.values[GPU_MEMORY_TOTAL] - reading.values[GPU_MEMORY_RESERVED]  # type: ignore[operator] # it knows all of its cards


@settings(max_examples=settings().max_examples * 40 // 100)
@given(world=WORLDS, second_s=SECONDS)
def test_sm_activity_is_told_by_the_models_that_can_and_never_above_busy(world: World, second_s: int) -> None:
    """An RTX 4090 only says whether some kernel ran; an H100 says for how many of its SMs, also of each instance."""
    for gpu_uuid, card in FLEET.cards.items():
        told = [reading.values for reading in world.readings(gpu_uuid, second_s)]
        if told[0][GPU_UP] == 0:
            continue
        sm_active = [values[GPU_SM_ACTIVE] for values in told]
        if card.model is RTX_4090:
            assert sm_active == [None]
            continue
        assert all(isinstance(ratio, float) and 0 <= ratio <= 0.83 for ratio in sm_active)
        busy = told[0][GPU_BUSY]
        assert busy is None or sm_active[0] == pytest.approx(0.83 * busy)


@settings(max_examples=settings().max_examples * 40 // 100)
@given(world=WORLDS, seconds=st.lists(SECONDS, min_size=2, max_size=6))
def test_a_reading_does_not_depend_on_what_was_asked_before(world: World, seconds: list[int]) -> None:
    def ask(some: World, order: list[int]) -> dict[int, object]:
        return {second_s: [some.readings(uuid, second_s) for uuid in FLEET.cards] for second_s in order}

    fresh = World(demo_fleet(7), START_S, world.tenancies, world.incidents)
    assert ask(world, seconds) == ask(fresh, sorted(seconds, reverse=True))


@settings(max_examples=settings().max_examples * 40 // 100)
@given(world=WORLDS, second_s=SECONDS)
def test_the_present_does_not_depend_on_when_a_tenant_will_leave(world: World, second_s: int) -> None:
    """A collector reads a second before the end is known; the bill is compared after it."""
    later = [
        replace(each, end_s=None) if each.end_s is None or each.end_s > second_s else each
        for each in world.tenancies
        if each.start_s <= second_s
    ]
    before = World(FLEET, START_S, later, world.incidents)
    for gpu_uuid in FLEET.cards:
        assert before.readings(gpu_uuid, second_s) == world.readings(gpu_uuid, second_s)


@settings(max_examples=settings().max_examples * 30 // 100)
@given(world=WORLDS, second_s=st.integers(START_S, START_S + SPAN_S - 130))
def test_energy_is_the_sum_of_power_and_never_falls(world: World, second_s: int) -> None:
    for gpu_uuid in FLEET.cards:
        told = [world.readings(gpu_uuid, second_s + age_s)[0].values for age_s in range(130)]
        if any(values[GPU_UP] == 0 for values in told):
            continue
        powers = [values[GPU_POWER] for values in told[:-1]]
        energies = [values[GPU_ENERGY] for values in told]
        assert energies[-1] - energies[0] == pytest.approx(sum(powers), abs=0.2)  # type: ignore[operator] # it knows all of its cards
        assert all(later > earlier for earlier, later in itertools.pairwise(energies))  # type: ignore[operator] # it knows all of its cards


@settings(max_examples=settings().max_examples * 50 // 100)
@given(
    workload=st.sampled_from(Workload),
    phase_s=st.integers(0, 599),
    ages_s=st.tuples(st.integers(0, 900), st.integers(0, 900)),
)
def test_busy_time_is_looked_up_not_added_up(workload: Workload, phase_s: int, ages_s: tuple[int, int]) -> None:
    pattern = PATTERNS[workload]
    first_s, last_s = sorted(ages_s)
    added = sum(pattern.demand(age_s, phase_s).busy_milli for age_s in range(first_s, last_s))
    assert pattern.busy_milli_seconds(last_s, phase_s) - pattern.busy_milli_seconds(first_s, phase_s) == added


def _alone(workload: Workload) -> list[tuple[float, float]]:
    """Used share of the usable memory and busy ratio of a card over ten minutes."""
    card = WHOLE[0]
    tenancy = Tenancy("a", card.device.uuid, None, workload, START_S, None, card.usable_bytes)
    world = World(FLEET, START_S, [tenancy])
    told = [world.readings(card.device.uuid, START_S + age_s)[0].values for age_s in range(600)]
    return [(values[GPU_MEMORY_USED] / card.usable_bytes, values[GPU_BUSY]) for values in told]  # type: ignore[operator, misc] # it knows all of its cards


def test_training_climbs_to_a_plateau_and_dips_at_checkpoints() -> None:
    told = _alone(Workload.TRAINING)

    assert told[0][0] < 0.1
    plateau = [memory for memory, _ in told[20:]]
    assert max(plateau) == pytest.approx(0.9, abs=0.01)
    assert min(plateau) == pytest.approx(0.84, abs=0.01)
    assert sum(busy > 0.9 for _, busy in told) > 500


def test_an_idle_notebook_holds_memory_and_computes_nothing() -> None:
    told = _alone(Workload.NOTEBOOK_IDLE)

    assert {busy for _, busy in told[60:]} == {0}
    assert len({memory for memory, _ in told[60:]}) == 1
    assert told[60][0] > 0.25


def test_a_memory_hog_crosses_the_watermarks_and_falls_back_without_filling_the_card() -> None:
    memory = [each for each, _ in _alone(Workload.MEMORY_HOG)]

    assert 0.95 < max(memory) < 1
    assert min(memory) < 0.5
    crossings = sum(before < 0.95 <= after for before, after in itertools.pairwise(memory))
    assert crossings >= 5


def test_a_memory_hog_on_a_share_takes_more_than_its_own_but_leaves_the_others_theirs() -> None:
    card = WHOLE[0]
    share_bytes = card.usable_bytes // 2
    hog, calm = (
        Tenancy(name, card.device.uuid, None, workload, START_S, None, share_bytes)
        for name, workload in (("hog", Workload.MEMORY_HOG), ("calm", Workload.TRAINING))
    )
    together, alone = World(FLEET, START_S, [hog, calm]), World(FLEET, START_S, [calm])
    most_bytes = 0
    for second_s in range(START_S, START_S + 300):
        (reading,) = together.readings(card.device.uuid, second_s)
        most_bytes = max(most_bytes, reading.owners[allocation_owner("hog")].memory_bytes or 0)
        owner = allocation_owner("calm")
        assert reading.owners[owner] == alone.readings(card.device.uuid, second_s)[0].owners[owner]
    assert most_bytes > share_bytes


def test_memory_stays_the_same_for_many_seconds() -> None:
    """As real programs do, and as a store compresses well: a level lasts 10 s and longer on average."""
    for workload in (Workload.TRAINING, Workload.INFERENCE, Workload.NOTEBOOK_IDLE):
        memory = [each for each, _ in _alone(workload)]
        assert sum(before != after for before, after in itertools.pairwise(memory)) < 60


def test_an_empty_card_is_idle_and_holds_a_little_that_is_nobodys() -> None:
    world = World(FLEET, START_S)
    for card in WHOLE:
        (reading,) = world.readings(card.device.uuid, START_S + 5)
        assert reading.values[GPU_BUSY] == 0
        assert list(reading.owners) == [UNATTRIBUTED]
        assert 0 < (reading.owners[UNATTRIBUTED].memory_bytes or 0) <= 8 * MIB


def test_a_card_in_mig_mode_tells_no_busy_ratio_and_its_instances_tell_memory_only() -> None:
    """M1: a driver says nothing of how busy they are. The instances' memory is the card's."""
    for card in CARDS:
        if not card.device.mig_enabled:
            continue
        told, *instances = World(FLEET, START_S).readings(card.device.uuid, START_S)
        assert told.values[GPU_BUSY] is None
        assert told.owners == {}
        assert [each.mig_uuid for each in instances] == [each.uuid for each in card.device.instances]
        assert all(each.values[GPU_BUSY] is None and GPU_POWER not in each.values for each in instances)
        assert told.values[GPU_MEMORY_USED] == sum(each.values[GPU_MEMORY_USED] for each in instances)  # type: ignore[misc] # it knows all of its cards


def test_the_fleet_is_what_it_says_and_follows_from_the_seed() -> None:
    assert {node: len(cards) for node, cards in FLEET.nodes.items()} == {
        "sim-4090-a": 8,
        "sim-4090-b": 8,
        "sim-h100": 4,
    }
    assert [card.device.mig_enabled for card in FLEET.nodes["sim-h100"]] == [False, False, True, True]
    assert demo_fleet(7) == FLEET
    assert not set(demo_fleet(8).cards) & set(FLEET.cards)
    uuids = [*FLEET.cards, *(each.uuid for card in CARDS for each in card.device.instances)]
    assert len(set(uuids)) == len(uuids) == 31
    for card in CARDS:
        device = card.device
        if device.mig_enabled:
            taken_by(device.instances)
            geometry = geometry_of(device.model, device.vram_total_bytes)
            assert geometry is not None
            assert geometry.full_card.sm_count == device.sm_count
            assert all(each.start in geometry.profile(each.profile).starts for each in device.instances)


def test_more_than_a_card_has_cannot_be_held_and_a_card_must_exist() -> None:
    card = WHOLE[0]
    one = Tenancy("a", card.device.uuid, None, Workload.TRAINING, START_S, None, card.usable_bytes)

    with pytest.raises(InputError, match="together"):
        World(FLEET, START_S, [one, replace(one, allocation="b")])
    with pytest.raises(InputError, match="no such device"):
        World(FLEET, START_S, [replace(one, gpu_uuid="GPU-none")])
    with pytest.raises(InputError, match="no such device"):
        World(FLEET, START_S).used_bytes("GPU-none", None, None, START_S)


@settings(max_examples=settings().max_examples * 30 // 100)
@given(
    world=WORLDS,
    step_s=st.sampled_from((1, 7, 10)),
    borders=st.lists(st.integers(0, SPAN_S), min_size=2, max_size=5, unique=True),
    unsampled=st.sets(st.integers(START_S, START_S + SPAN_S), max_size=20),
)
def test_truth_is_the_sum_of_readings_and_adds_over_any_cut(
    world: World, step_s: int, borders: list[int], unsampled: set[int]
) -> None:
    """Against a plain sum over the readings themselves, for whoever held anything."""
    seconds = sorted(START_S + each for each in borders)
    for tenancy in world.tenancies[:3]:
        owner = allocation_owner(tenancy.allocation)
        is_share = tenancy.mig_uuid is None and tenancy.vram_limit_bytes < FLEET.cards[tenancy.gpu_uuid].usable_bytes
        allocation = tenancy.allocation if is_share else None
        plain: dict[str, int] = defaultdict(int)
        for second_s in range(seconds[0], seconds[-1]):
            read_s = START_S + (second_s - START_S) // step_s * step_s
            reading = next(
                each for each in world.readings(tenancy.gpu_uuid, read_s) if each.mig_uuid == tenancy.mig_uuid
            )
            if second_s in unsampled:
                plain["hole"] += 1
            elif reading.values[GPU_UP] == 0:
                plain["lost"] += 1
            else:
                plain["covered"] += 1
                used = reading.values[GPU_MEMORY_USED]
                if is_share:
                    used = reading.owners[owner].memory_bytes if owner in reading.owners else 0
                assert isinstance(used, int)
                plain["used"] += used
                plain["over"] += max(0, used - tenancy.vram_limit_bytes)
        parts = [
            truth(
                world,
                Span(tenancy.gpu_uuid, tenancy.mig_uuid, allocation, start_s, end_s),
                step_s,
                tenancy.vram_limit_bytes,
                unsampled,
            )
            for start_s, end_s in itertools.pairwise(seconds)
        ]
        summed = [sum(column) for column in zip(*parts, strict=True)]
        assert summed == [plain[name] for name in ("covered", "lost", "hole", "used", "over")]


def test_a_fleet_refuses_a_node_it_does_not_have() -> None:
    with pytest.raises(InputError, match="use one of sim-4090-a"):
        Fleet(1, FLEET.nodes).devices("sim-none")
