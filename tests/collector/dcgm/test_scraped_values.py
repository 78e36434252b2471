"""What a page says of a card and of its instances: which value is whose, in parts or blank, and why it is missing."""

from fractions import Fraction

from collector.dcgm.cards import Scrape
from domain.samples import FieldState
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_LAST_XID,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_TEMPERATURE,
)
from domain.units import MIB
from tests.collector.dcgm_pages import (
    ENERGY,
    FREE,
    GR,
    RESERVED,
    TEMP,
    TOTAL,
    USED,
    UTIL,
    line,
    page,
    read_card,
    read_lines,
    read_page,
)


def test_317_what_only_the_card_has_is_taken_from_its_instances_once() -> None:
    """R7, dcgm-exporter 317: the energy of the card is on each instance, read one after another. It is not theirs."""
    instances = [
        line(ENERGY, 126_272_101_025, GPU_I_ID="1", GPU_I_PROFILE="3g.20gb"),
        line(ENERGY, 126_272_106_318, GPU_I_ID="2", GPU_I_PROFILE="3g.20gb"),
        line(GR, 0.5, GPU_I_ID="2", GPU_I_PROFILE="3g.20gb"),
    ]

    card = read_card(*instances)

    assert card.itself.values == {GPU_ENERGY: Fraction(126_272_106_318, 1_000)}
    assert [dict(each.values) for each in card.instances] == [{}, {GPU_GR_ACTIVE: Fraction(1, 2)}]
    own = read_card(*instances, line(ENERGY, 126_272_000_000))
    assert own.itself.values[GPU_ENERGY] == 126_272_000, "the card's own line counts before those"


def test_216_a_card_in_mig_mode_is_not_idle_for_saying_0_percent() -> None:
    """dcgm-exporter 216: GPU_UTIL is 0 at 438 W; there is no such rate where MIG is on."""
    card = read_card(line(UTIL, 0), line(UTIL, 0, GPU_I_ID="1"), line(GR, 0.9, GPU_I_ID="1"))

    assert card.itself.values == {}
    assert dict(card.instances[0].values) == {GPU_GR_ACTIVE: Fraction(9, 10)}
    assert read_card(line(UTIL, 0)).itself.values == {GPU_BUSY: 0}, "without MIG 0 is a value"


def test_a_card_and_its_instances_in_one_page_keep_their_own_values() -> None:
    card = read_card(line(GR, 0.99), line(USED, 4_845), line(GR, 0.98, GPU_I_ID="13"), line(USED, 10, GPU_I_ID="13"))

    assert card.itself.values == {GPU_GR_ACTIVE: Fraction(99, 100), GPU_MEMORY_USED: 4_845 * MIB}
    assert dict(card.instances[0].values) == {GPU_GR_ACTIVE: Fraction(98, 100), GPU_MEMORY_USED: 10 * MIB}


def test_380_an_instance_without_memory_has_none() -> None:
    """dcgm-exporter 380 and 512: H100 instances tell no framebuffer. That is not 0 bytes."""
    card = read_card(*page("GPU-1").splitlines(), line(GR, 0.5, GPU_I_ID="7"))

    assert GPU_MEMORY_USED in card.itself.values
    assert GPU_MEMORY_USED not in card.instances[0].values


def test_271_used_and_free_are_no_total_without_what_the_driver_reserves() -> None:
    """R6, dcgm-exporter 271: 1,200 + 22,800 of 24,576 MiB."""
    parts = [line(USED, 1_200), line(FREE, 22_800)]

    assert GPU_MEMORY_TOTAL not in read_card(*parts).itself.values
    whole = read_card(*parts, line(RESERVED, 576)).itself.values
    assert (whole[GPU_MEMORY_TOTAL], whole[GPU_MEMORY_RESERVED]) == (24_576 * MIB, 576 * MIB)
    assert whole[GPU_MEMORY_USED] == 1_200 * MIB
    told = read_card(*parts, line(RESERVED, 576), line(TOTAL, 24_564)).itself.values
    assert told[GPU_MEMORY_TOTAL] == 24_564 * MIB, "what is told counts before a sum"


def test_before_driver_510_used_memory_has_the_reserve_in_it() -> None:
    """DCGM asks such a driver in the old way: used and free are the total then, and used is not what tenants use."""
    told = ((USED, 1_200), (FREE, 23_376), (RESERVED, 2**63 - 14))

    values = read_card(*(line(name, value, DCGM_FI_DRIVER_VERSION="470.57.02") for name, value in told)).itself.values

    assert values == {GPU_MEMORY_TOTAL: 24_576 * MIB}


def test_152_a_blank_costs_its_field_and_is_no_problem() -> None:
    """R2, gpu-monitoring-tools 152, DCGM 83: a card that cannot tell has nothing, and nothing is wrong with it."""
    found = read_page(page("GPU-1", DCGM_FI_DEV_GPU_TEMP=2**63 - 14, DCGM_FI_PROF_SM_ACTIVE=140_737_488_355_328.0))

    values = found.cards[0].itself.values
    assert GPU_TEMPERATURE not in values
    assert GPU_SM_ACTIVE not in values
    assert GPU_POWER in values
    assert found.refused == ()


def test_words_where_a_number_belongs_are_told_and_the_rest_of_the_card_is_read() -> None:
    found = read_lines(line(TEMP, "ERROR - FAILED TO CONVERT TO STRING"), line(USED, 10), line("DCGM_FI_X", "ERROR"))

    (card,) = found.cards
    assert card.itself.values == {GPU_MEMORY_USED: 10 * MIB}
    assert card.itself.garbled == {GPU_TEMPERATURE}
    assert [row.line for row in found.refused] == [1, 3]


def test_500_the_last_xid_is_a_state_of_the_card_and_counts_nothing() -> None:
    """dcgm-exporter 500: it stays until the driver is loaded again, so a second XID 31 does not show."""
    assert read_card(line("DCGM_FI_DEV_XID_ERRORS", 31)).itself.values == {GPU_LAST_XID: 31}
    window = read_lines(line("DCGM_EXP_XID_ERRORS_COUNT", 1, window_size_in_ms="300000", xid="42"))
    assert window == Scrape((), ()), "a count within a window that moves is no counter"


def test_r5_of_a_card_that_had_no_xid_there_is_no_last_one() -> None:
    """R5: an exporter with DCGM 4.4.1 says 0 of it, one with 4.5.3 leaves it out (dcgm-exporter 700)."""
    before, after = read_card(line(TEMP, 40), line("DCGM_FI_DEV_XID_ERRORS", 0)), read_card(line(TEMP, 40))

    assert before.itself.values == after.itself.values == {GPU_TEMPERATURE: 40}
    assert before.itself.missing == {GPU_LAST_XID: FieldState.NOT_READY}


def test_r10_the_last_xid_is_a_value_and_no_event() -> None:
    """R10: a second XID 31 leaves it as it is; dcgm-exporter 500."""
    card = read_card(line("DCGM_FI_DEV_XID_ERRORS", 31), line("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="31"))

    assert card.itself.values == {GPU_LAST_XID: 31}
    assert card.itself.parts == {}


def test_what_is_blank_says_why() -> None:
    """Not supported is not the same as not yet, nor as not allowed."""
    told = {TEMP: 2**63 - 14, USED: 2**63 - 13, GR: 140_737_488_355_328.0}

    missing = read_card(*(line(name, value) for name, value in told.items())).itself.missing

    assert missing == {
        GPU_TEMPERATURE: FieldState.UNSUPPORTED,
        GPU_MEMORY_USED: FieldState.NO_PERMISSION,
        GPU_GR_ACTIVE: FieldState.NOT_READY,
    }


def test_m1_a_card_with_instances_says_that_it_has_no_busy_rate() -> None:
    """M1: GPU_UTIL of such a card is N/A, or 0 at 438 W."""
    card = read_card(line(UTIL, 0), line(GR, 0.9, GPU_I_ID="1"))

    assert card.itself.missing[GPU_BUSY] is FieldState.UNSUPPORTED
