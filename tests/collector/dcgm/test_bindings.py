"""DCGM's own Python bindings: loaded from their folder only, with a remedy where they are not there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.dcgm.bindings import BoundHostEngine
from collector.dcgm.engine_address import EngineAddress, engine_address
from collector.dcgm.host_engine import EngineError, Entity, EntityGroup, Status
from domain.errors import InputError, UnavailableError
from domain.units import MIB
from tests.fakes import dcgm
from tests.fakes.clock import SettableClock
from tests.fakes.dcgm import FakeHostEngine

BINDINGS = Path(__file__).parents[2] / "fakes" / "dcgm_bindings"
ADDRESS = engine_address("127.0.0.1")


@pytest.fixture
def served() -> Iterator[FakeHostEngine]:
    """An engine that the bindings in `tests/fakes/dcgm_bindings` reach."""
    dcgm.SERVED[ADDRESS.url] = engine = FakeHostEngine(SettableClock(1_790_000_000_000_000), [dcgm.card(0, gis=(1, 2))])
    yield engine
    dcgm.SERVED.clear()


@pytest.mark.parametrize(
    ("text", "address", "url"),
    [
        ("127.0.0.1", EngineAddress("127.0.0.1:5555", None), "tcp://127.0.0.1:5555"),
        ("node-a:6000", EngineAddress("node-a:6000", None), "tcp://node-a:6000"),
        ("[::1]", EngineAddress("[::1]:5555", None), "tcp://[::1]:5555"),
        ("unix:///run/dcgm.sock", EngineAddress(None, "/run/dcgm.sock"), "unix:///run/dcgm.sock"),
        ("/run/dcgm.sock", EngineAddress(None, "/run/dcgm.sock"), "unix:///run/dcgm.sock"),
    ],
)
def test_an_address_is_a_host_or_a_socket(text: str, address: EngineAddress, url: str) -> None:
    assert engine_address(text) == address
    assert address.url == url


@pytest.mark.parametrize(
    "text", ["", "unix://", "/", "a b", "host:0", "host:99999", "host:x", "http://host", "host:1:2"]
)
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match=r"write a host such as 127\.0\.0\.1:5555"):
        engine_address(text)


def test_bindings_that_are_not_there_are_one_line_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as refused:
        BoundHostEngine(ADDRESS, tmp_path / "nowhere")

    assert str(tmp_path / "nowhere") in str(refused.value)
    assert str(refused.value).endswith("or set dcgm_bindings to the folder with dcgm_agent.py")


def test_bindings_that_are_broken_are_no_traceback(tmp_path: Path) -> None:
    for name in ("dcgmvalue", "dcgm_structs", "dcgm_fields", "dcgm_agent"):
        (tmp_path / f"{name}.py").write_text("import a_module_that_nobody_has\n", "utf-8")

    with pytest.raises(UnavailableError, match="No module named 'a_module_that_nobody_has'"):
        BoundHostEngine(ADDRESS, tmp_path)
    assert "dcgmvalue" not in sys.modules or not str(sys.modules["dcgmvalue"].__file__).startswith(str(tmp_path))


def test_a_library_that_is_not_there_says_what_to_install(served: FakeHostEngine) -> None:
    BoundHostEngine(ADDRESS, BINDINGS).close()
    structs = sys.modules["dcgm_structs"]
    structs.missing_library.append(-25)
    try:
        with pytest.raises(UnavailableError, match="install datacenter-gpu-manager-4-core"):
            BoundHostEngine(ADDRESS, BINDINGS)
    finally:
        structs.missing_library.clear()


def test_an_engine_that_is_away_says_where_it_was_looked_for() -> None:
    with pytest.raises(EngineError) as refused:
        BoundHostEngine(engine_address("127.0.0.1:5556"), BINDINGS)

    assert "connect to 'tcp://127.0.0.1:5556'" in str(refused.value)
    assert refused.value.status == Status.CONNECTION_NOT_VALID


def test_cards_and_their_instances_are_described(served: FakeHostEngine) -> None:
    engine = BoundHostEngine(ADDRESS, BINDINGS)

    (card,) = engine.cards()

    assert card == served.machine[0]
    assert card.vram_reserved_bytes == 600 * MIB
    assert [each.mig_uuid for each in card.instances] == ["MIG-1-1", "MIG-1-2"]
    engine.close()


def test_what_dcgm_does_not_know_of_a_card_is_not_known(served: FakeHostEngine) -> None:
    """Its blanks are no facts."""
    served.machine = [dcgm.card(0, pci_bus_id="", vram_total_bytes=0, nvml_index=None, minor=None)]
    engine = BoundHostEngine(ADDRESS, BINDINGS)

    (card,) = engine.cards()

    assert (card.pci_bus_id, card.vram_total_bytes, card.nvml_index, card.minor) == ("", 0, None, None)
    engine.close()


def test_groups_are_found_again_and_those_of_before_a_change_are_removed(served: FakeHostEngine) -> None:
    """An engine has room for 64 groups, and they outlive the collectors that made them."""
    agent = _agent()
    for gis in ((1, 2), (1, 2), (3,), (4, 5)):
        served.machine = [dcgm.card(0, gis=gis)]
        engine = BoundHostEngine(ADDRESS, BINDINGS)
        (card,) = engine.cards()
        engine.watch([card.entity], [155, 156], 1_000_000, 60.0)
        engine.watch([each.entity for each in card.instances], [1001, 1002], 1_000_000, 60.0)
        engine.close()

    groups = [name for name, _ in agent.groups_of[id(served)].values()]
    assert sorted(groups) == ["gputab-1.0", "gputab-4.0,4.1"]
    assert len(agent.field_groups_of[id(served)]) == 2


def test_a_group_that_fails_costs_the_others_nothing(served: FakeHostEngine) -> None:
    """A card that is lost, or a field that is no longer watched, answers with an error."""
    engine = BoundHostEngine(ADDRESS, BINDINGS)
    card, instance = served.machine[0].entity, served.machine[0].instances[0].entity
    engine.watch([card], [155], 1_000_000, 60.0)
    engine.watch([instance], [1002], 1_000_000, 60.0)
    served.advance_s(3)
    _agent().FAILING[instance] = int(Status.GPU_IS_LOST)
    try:
        values = engine.values_since(0)
    finally:
        _agent().FAILING.clear()

    assert {(value.entity, value.field, value.status) for value in values} == {
        (card, 155, Status.OK),
        (instance, 1002, Status.GPU_IS_LOST),
    }
    engine.close()


def test_bindings_of_version_3_connect_by_their_older_call(
    served: FakeHostEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    BoundHostEngine(ADDRESS, BINDINGS).close()
    agent = _agent()
    monkeypatch.delattr(agent, "dcgmConnect_v3")
    dcgm.SERVED["127.0.0.1:5555"] = dcgm.SERVED["/run/dcgm.sock"] = served

    for address in (ADDRESS, engine_address("/run/dcgm.sock")):
        engine = BoundHostEngine(address, BINDINGS)
        assert [card.entity for card in engine.cards()] == [Entity(EntityGroup.GPU, 0)]
        engine.close()


def _agent() -> Any:
    return sys.modules["dcgm_agent"]
