"""Every second of every card of random fleets is what counting one second at a time says it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.capacity import DeviceBalance
from domain.clock import MICROSECONDS as US
from meter.conservation.device_spans import device_spans
from meter.conservation.fleet import Fleet
from meter.conservation.residuals import Residuals, residuals
from meter.conservation.second import node_second
from meter.evidence.evidence import Evidence
from tests.meter.capacity import STATES
from tests.meter.conservation_oracle import Second, node_seconds
from tests.meter.conservation_worlds import NODES, SPAN_S, World, worlds
from tests.meter.facts import observe
from tests.meter.hour import HOUR_S

SECONDS = range(HOUR_S, HOUR_S + SPAN_S)
EXAMPLES = settings(max_examples=settings().max_examples * 60 // 100, deadline=None)


def _read(balance: DeviceBalance) -> Second:
    return {state: (getattr(balance.compute, state), getattr(balance.vram, state)) for state in (*STATES, "residual")}


def _by_second(fleet: Fleet, *evidence: Evidence) -> dict[tuple[str, int], Second]:
    found: dict[tuple[str, int], Second] = {}
    for each in evidence:
        for span in device_spans(fleet, each):
            for second_s in range(span.start_s, span.end_s):
                assert (span.gpu_uuid, second_s) not in found
                found[span.gpu_uuid, second_s] = _read(span.balance)
    return found


def _is_covered(fleet: Fleet, seconds: range) -> bool:
    """Whether a card stands behind every second of every grant."""
    there = {
        (each.gpu_uuid, second)
        for each in fleet.devices
        for second in seconds
        if each.period.start_us <= second * US < each.period.end_us
    }
    return all(
        (each.gpu_uuid, second) in there
        for each in fleet.grants
        for second in seconds
        if each.period.start_us <= second * US < each.period.end_us
    )


def _residuals(fleet: Fleet, found: dict[tuple[str, int], Second], seconds: range) -> Residuals:
    if not _is_covered(fleet, seconds):
        return Residuals(None, None)
    left = [each["residual"] for (_, second), each in found.items() if second in seconds]
    return Residuals(sum(-compute for compute, _ in left), sum(-vram for _, vram in left))


@given(world=worlds())
@EXAMPLES
def test_the_states_of_every_second_are_those_counted_one_by_one(world: World) -> None:
    """They sum to the card, and what is granted beyond it is a residual below 0 that no state makes up for."""
    for node in NODES:
        evidence = observe(world.rows, end=SPAN_S, node=node)
        right = node_seconds(world.fleet, node, world.lost, SECONDS)
        assert _by_second(world.fleet, evidence) == right
        for span in device_spans(world.fleet, evidence):
            for each in span.balance:
                assert min(getattr(each, state) for state in STATES) >= 0
                assert each.residual <= 0
                assert sum(getattr(each, state) for state in STATES) + each.residual == each.total
        assert residuals(world.fleet, evidence) == _residuals(world.fleet, right, SECONDS)


@given(world=worlds(), seam=st.integers(1, SPAN_S - 1), node=st.sampled_from(NODES))
@EXAMPLES
def test_two_halves_of_a_window_are_the_window(world: World, seam: int, node: str) -> None:
    halves = [observe(world.rows, end=seam, node=node), observe(world.rows, start=seam, end=SPAN_S, node=node)]
    whole = observe(world.rows, end=SPAN_S, node=node)
    assert _by_second(world.fleet, *halves) == _by_second(world.fleet, whole)
    first, second = (residuals(world.fleet, half) for half in halves)
    both = [(first.compute_unit_seconds, second.compute_unit_seconds)]
    both.append((first.vram_byte_seconds, second.vram_byte_seconds))
    sums = [None if None in pair else sum(each for each in pair if each is not None) for pair in both]
    assert Residuals(*sums) == residuals(world.fleet, whole)


@given(world=worlds(), second=st.sampled_from(SECONDS), node=st.sampled_from(NODES))
@EXAMPLES
def test_a_second_that_is_asked_for_is_the_second_that_is_summed(world: World, second: int, node: str) -> None:
    """By evidence of the hour as by that of the second alone; what no card stands behind is named."""
    offset = second - HOUR_S
    right = {
        uuid: states
        for (uuid, _), states in node_seconds(world.fleet, node, world.lost, range(second, second + 1)).items()
    }
    for evidence in (
        observe(world.rows, end=SPAN_S, node=node),
        observe(world.rows, start=offset, end=offset + 1, node=node),
    ):
        found = node_second(world.fleet, evidence, second)
        shown = {card.device.gpu_uuid: card.balance and _read(card.balance) for card in found.cards}
        assert shown == right
        assert found.residuals == residuals(world.fleet, observe(world.rows, start=offset, end=offset + 1, node=node))
        assert (not found.uncovered) == _is_covered(world.fleet, range(second, second + 1))
