"""Profiling by way of a host engine: who has the counters, who has none, and what of them is not believed."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from collector.dcgm.host_engine import Status
from collector.ranges import refuse_garbage
from domain.samples import Basis, FieldState
from domain.series import GPU_COMPUTE, GPU_GR_ACTIVE, GPU_POWER, GPU_SM_ACTIVE, GPU_SM_ELAPSED_CYCLES
from tests.collector.engine_nodes import EngineNode, told_values
from tests.fakes import dcgm

PROFILING = tuple(range(1001, 1009))

NEW_PROFILING = (1084, 1085, 1091, 1092)


def test_l8_a_profiler_that_has_the_lock_leaves_the_busy_basis_with_the_reason(
    make_node: Callable[..., EngineNode],
) -> None:
    """L8: Nsight, or a second DCGM, on a card before Hopper (DCGM 56, 62, 151)."""
    node = make_node()
    node.engine.refused = dict.fromkeys(PROFILING, Status.PROFILING_LIBRARY_ERROR)
    node.source.inventory()

    reading = node.last(3)

    assert GPU_SM_ACTIVE not in told_values(reading)
    assert reading.missing[GPU_SM_ACTIVE] is FieldState.PROFILER_BUSY
    assert told_values(reading)[GPU_COMPUTE] == 0.91
    assert reading.bases[GPU_COMPUTE] == Basis("dcgm_engine", "busy")
    node.engine.refused = {}
    told = told_values(node.last(32))
    assert (told[GPU_SM_ACTIVE], told[GPU_COMPUTE]) == (0.5, 0.5), "it is tried again"


def test_l8_profiling_that_is_paused_is_busy_and_comes_back(node: EngineNode) -> None:
    """L8: `dcgmi profile --pause` makes every field of profiling blank at once."""
    node.seconds(3)
    say = node.engine.say
    node.engine.say = lambda entity, number, at: dcgm.BLANK_DOUBLE if number in PROFILING else say(entity, number, at)

    paused = node.last(3)

    assert {paused.missing[series] for series in (GPU_SM_ACTIVE, GPU_GR_ACTIVE)} == {FieldState.PROFILER_BUSY}
    assert told_values(paused)[GPU_COMPUTE] == 0.91
    node.engine.say = say
    assert told_values(node.last(2))[GPU_COMPUTE] == 0.5


@pytest.mark.parametrize(
    "status", [Status.MODULE_NOT_LOADED, Status.PROFILING_NOT_SUPPORTED, Status.NOT_SUPPORTED, Status.GPU_NOT_SUPPORTED]
)
def test_l10_a_module_that_is_not_loaded_is_one_line_and_no_error_per_second(
    make_node: Callable[..., EngineNode], status: Status
) -> None:
    """L10: GeForce, or no datacenter-gpu-manager-4-proprietary (DCGM 50, dcgm-exporter 22, 152)."""
    node = make_node()
    node.engine.refused = dict.fromkeys(PROFILING, status)

    with capture_logs() as logs:
        node.source.inventory()
        node.seconds(100)

    (told,) = [entry for entry in logs if entry["event"] == "fields_not_watched"]
    assert (told["fields"], told["state"]) == ("PROFILING", "unsupported")
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    assert node.last().missing[GPU_SM_ACTIVE] is FieldState.UNSUPPORTED
    assert node.engine.asked.count("watch") == 4, "it is not tried again"


def test_an_engine_that_does_not_know_new_fields_tells_the_old_ones(make_node: Callable[..., EngineNode]) -> None:
    """An older version answers for the whole group of fields that one of them is bad."""
    node = make_node()
    node.engine.refused = dict.fromkeys(NEW_PROFILING, Status.BAD_PARAMETER)
    node.source.inventory()

    reading = node.last(3)

    assert told_values(reading)[GPU_SM_ACTIVE] == 0.5
    assert reading.missing[GPU_SM_ELAPSED_CYCLES] is FieldState.UNSUPPORTED


def test_m5_what_one_card_cannot_measure_costs_another_nothing(make_node: Callable[..., EngineNode]) -> None:
    """M5: a GeForce beside an A100 (dcgm-exporter 736 asks card 0 for all)."""
    node = make_node(dcgm.card(0, model="NVIDIA GeForce RTX 4090"), dcgm.card(1))
    node.engine.of_card[0] = dict.fromkeys(PROFILING, Status.MODULE_NOT_LOADED)
    node.source.inventory()
    node.seconds(2)

    geforce, a100 = (node.last(1, uuid) for uuid in ("GPU-1", "GPU-2"))

    assert geforce.missing[GPU_SM_ACTIVE] is FieldState.UNSUPPORTED
    assert told_values(geforce)[GPU_COMPUTE] == 0.91
    assert told_values(a100)[GPU_COMPUTE] == 0.5


def test_r3_sm_active_of_0_while_a_kernel_runs_is_suspect_and_the_busy_basis_is_used(node: EngineNode) -> None:
    """R3: DCGM 303 and 202: after an XID 31 profiling says 0 for minutes."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: 0.0 if number in (1001, 1002) else say(entity, number, at)
    assert told_values(node.last(3))[GPU_COMPUTE] == 0, "a moment of it may be"

    reading = node.last(40)

    assert reading.missing[GPU_SM_ACTIVE] is FieldState.SUSPECT
    assert told_values(reading)[GPU_COMPUTE] == 0.91
    assert reading.bases[GPU_COMPUTE].basis == "busy"


def test_r4_a_ratio_of_1_294_is_garbage(node: EngineNode) -> None:
    """R4: DCGM 152 and 138, on a MIG instance."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: 1.294 if number == 1002 else say(entity, number, at)

    checked = refuse_garbage(node.last(3))

    assert GPU_SM_ACTIVE in checked.refused
    assert checked.reading.values.get(GPU_COMPUTE) != 1.294


@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")])
def test_r1_what_is_no_number_costs_its_own_field_only_and_is_counted(node: EngineNode, garbage: float) -> None:
    """R1: no error of the whole card, second after second."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: garbage if number == 1002 else say(entity, number, at)

    checked = refuse_garbage(node.last(3))

    assert GPU_SM_ACTIVE in checked.refused
    assert checked.reading.missing[GPU_SM_ACTIVE] is FieldState.GARBAGE
    assert told_values(checked.reading)[GPU_POWER] == 300.0
