"""Simulated worlds: any tenants that the cards of a fleet have room for, and cards that are lost."""

from hypothesis import strategies as st

from collector.simulation.fleet import SimulatedCard, demo_fleet
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World

FLEET = demo_fleet(7)
START_S = 1_700_000_000
SPAN_S = 2_000
CARDS = list(FLEET.cards.values())
WHOLE = [card for card in CARDS if not card.device.mig_enabled]


@st.composite
def tenancies(draw: st.DrawFn) -> list[Tenancy]:
    """Tenants on three cards, one in MIG mode: whole, in shares of a quarter each, or on an instance."""
    whole, shared = draw(st.permutations(WHOLE))[:2]
    mig = next(card for card in CARDS if card.device.instances)
    slots: list[tuple[SimulatedCard, str | None, int]] = [(whole, None, whole.usable_bytes)]
    slots += [(shared, None, shared.usable_bytes // 4)] * 4
    slots += [(mig, each.uuid, each.vram_bytes) for each in mig.device.instances]
    found = []
    for number, (card, mig_uuid, limit_bytes) in enumerate(slots):
        start_s = START_S
        for turn in range(draw(st.integers(0, 3))):
            start_s += draw(st.integers(0, 300))
            end_s = draw(st.integers(start_s, start_s + 900) | st.none())
            workload = draw(st.sampled_from(Workload))
            found.append(
                Tenancy(f"a{number}-{turn}", card.device.uuid, mig_uuid, workload, start_s, end_s, limit_bytes)
            )
            if end_s is None:
                break
            start_s = end_s
    return found


WORLDS = st.builds(
    World,
    st.just(FLEET),
    st.just(START_S),
    tenancies(),
    st.lists(
        st.builds(
            Incident,
            st.just(IncidentKind.LOST),
            st.sampled_from(list(FLEET.cards)),
            st.integers(START_S, START_S + 900),
            st.integers(START_S + 900, START_S + SPAN_S),
        ),
        max_size=2,
    ),
)
SECONDS = st.integers(START_S, START_S + SPAN_S)
