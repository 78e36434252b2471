"""One process writes the world, many read it while it is written, and its past never changes."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.simulation.fleet import demo_fleet
from collector.simulation.source import SimulatedSource
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy
from collector.simulation.world_file import NOTICE_SECONDS, WorldFile, WorldReader, load_world
from domain.clock import FrozenClock
from domain.errors import InputError, UnavailableError
from domain.series import GPU_UP

SEED = 7
START_S = 1_700_000_000
FLEET = demo_fleet(SEED)
CARD = FLEET.nodes["sim-4090-a"][0]


def _tenancy(allocation: str, start_s: int) -> Tenancy:
    return Tenancy(allocation, CARD.device.uuid, None, Workload.TRAINING, start_s, None, CARD.usable_bytes // 4)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START_S * 1_000_000 + 700_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo" / "world.jsonl"


def test_what_is_written_is_read_as_it_comes(path: Path, clock: FrozenClock) -> None:
    file = WorldFile.create(path, SEED, clock)
    reader = WorldReader(path)
    assert reader.world().tenancies == ()
    assert reader.world().started_s == START_S

    tenancy = _tenancy("a", START_S + 5)
    incident = Incident(IncidentKind.LOST, CARD.device.uuid, START_S + 20, START_S + 30)
    file.add_tenancy(tenancy)
    file.add_incident(incident)
    assert reader.world().tenancies == (tenancy,)
    assert reader.world().incidents == (incident,)

    file.end_tenancies("a", START_S + 50)
    assert [each.end_s for each in reader.world().tenancies] == [START_S + 50]
    assert load_world(path).tenancies == reader.world().tenancies


def test_the_end_of_an_allocation_ends_all_its_open_workloads_and_no_others(path: Path, clock: FrozenClock) -> None:
    file = WorldFile.create(path, SEED, clock)
    for allocation in ("a", "a", "b"):
        file.add_tenancy(_tenancy(allocation, START_S + 5))
    file.end_tenancies("a", START_S + 9)
    file.end_tenancies("a", START_S + 20)

    assert [each.end_s for each in load_world(path).tenancies] == [START_S + 9, START_S + 9, None]


def test_a_line_about_the_past_is_refused(path: Path, clock: FrozenClock) -> None:
    """A collector that has read a second must find it unchanged when the bill is compared."""
    file = WorldFile.create(path, SEED, clock)
    before = path.read_bytes()

    assert file.earliest_s == START_S + NOTICE_SECONDS
    late_s = file.earliest_s - 1
    with pytest.raises(InputError, match="collectors may have read it"):
        file.add_tenancy(_tenancy("a", late_s))
    with pytest.raises(InputError, match="collectors may have read it"):
        file.end_tenancies("a", late_s)
    with pytest.raises(InputError, match="collectors may have read it"):
        file.add_incident(Incident(IncidentKind.LOST, CARD.device.uuid, late_s, late_s + 90))
    assert path.read_bytes() == before


@settings(max_examples=settings().max_examples * 60 // 100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 2_000), max_size=6))
def test_a_torn_line_is_left_for_the_next_look(tmp_path: Path, cuts: list[int]) -> None:
    """Whatever the reader sees of a file that grows, at the end it has read every line once."""
    whole = tmp_path / "whole.jsonl"
    whole.unlink(missing_ok=True)
    file = WorldFile.create(whole, SEED, FrozenClock(START_S * 1_000_000))
    for number in range(4):
        file.add_tenancy(_tenancy(f"a{number}", START_S + 5))
    file.end_tenancies("a2", START_S + 50)
    data = whole.read_bytes()

    growing = tmp_path / "growing.jsonl"
    growing.write_bytes(b"")
    reader = WorldReader(growing)
    for cut in sorted(cuts):
        growing.write_bytes(data[:cut])
        try:
            seen = reader.world().tenancies
        except UnavailableError:
            assert b"\n" not in data[:cut], "only an unfinished first line is no world"
        else:
            assert len(seen) == sum(b"tenancy" in line for line in data[:cut].split(b"\n")[:-1])
    growing.write_bytes(data)
    assert reader.world().tenancies == load_world(whole).tenancies


def test_a_world_is_not_begun_twice_and_must_be_there(path: Path, clock: FrozenClock) -> None:
    with pytest.raises(UnavailableError, match="start what writes it first"):
        WorldReader(path).world()
    WorldFile.create(path, SEED, clock)
    with pytest.raises(InputError, match="it is there already"):
        WorldFile.create(path, SEED, clock)


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", "{}", '{"comet": {}}', '{"tenancy": {"allocation": "a"}}', '{"end": {"allocation": "a"}}'],
)
def test_a_line_of_no_meaning_is_shown(path: Path, clock: FrozenClock, line: str) -> None:
    WorldFile.create(path, SEED, clock)
    with path.open("a") as file:
        file.write(line + "\n")

    with pytest.raises(InputError, match="cannot read the line"):
        load_world(path)


def test_every_line_is_one_json_object(path: Path, clock: FrozenClock) -> None:
    file = WorldFile.create(path, SEED, clock)
    file.add_tenancy(_tenancy("line\nbreak", START_S + 5))

    lines = path.read_text().splitlines()
    assert [list(json.loads(line)) for line in lines] == [["world"], ["tenancy"]]


def test_a_simulated_source_follows_the_file(path: Path, clock: FrozenClock) -> None:
    file = WorldFile.create(path, SEED, clock)
    source = SimulatedSource(path, "sim-4090-a")
    uuid = CARD.device.uuid
    assert source.inventory() == FLEET.devices("sim-4090-a")
    assert len(source.read(uuid, START_S + 1)[0].owners) == 1

    file.add_tenancy(_tenancy("a", START_S + 3))
    file.add_incident(Incident(IncidentKind.LOST, uuid, START_S + 4, START_S + 6))

    assert len(source.read(uuid, START_S + 2)[0].owners) == 1
    assert list(source.read(uuid, START_S + 3)[0].owners) == ["alloc:a", "unattributed"]
    assert source.read(uuid, START_S + 4)[0].values == {GPU_UP: 0}
    assert source.read(uuid, START_S + 6)[0].values[GPU_UP] == 1
    assert len(source.inventory()) == 8
    source.close()


def test_a_simulated_source_follows_the_file_after_a_clock_was_set_back(path: Path, clock: FrozenClock) -> None:
    file = WorldFile.create(path, SEED, clock)
    source = SimulatedSource(path, "sim-4090-a")
    uuid = CARD.device.uuid
    source.read(uuid, START_S + 3_600)

    file.add_tenancy(_tenancy("a", START_S + 3))

    assert list(source.read(uuid, START_S + 3)[0].owners) == ["alloc:a", "unattributed"]
    source.close()


def test_a_node_outside_the_fleet_is_refused(path: Path, clock: FrozenClock) -> None:
    WorldFile.create(path, SEED, clock)
    with pytest.raises(InputError, match="cannot simulate the node 'gpu-1'"):
        SimulatedSource(path, "gpu-1")
