"""Whose a sample is: cards and MIG instances, copies for pods and jobs, and memory that is told in parts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dcgm.cards import Scrape, ScrapedCard
from collector.dcgm.mig_names import read_mig_name
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
from tests.collector.dcgm_pages import line, page, read_page

UTIL, TEMP, GR = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
FREE, USED, RESERVED = "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"
TOTAL, ENERGY = "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"


def _card(*lines: str) -> ScrapedCard:
    (card,) = _scrape(*lines).cards
    return card


def _scrape(*lines: str) -> Scrape:
    return read_page("\n".join(lines))


def test_a_card_is_what_its_labels_say() -> None:
    card = _card(line(TEMP, 40, "GPU-7", 3, modelName="NVIDIA L4"))

    assert (card.gpu_uuid, card.index, card.model, card.hostname) == ("GPU-7", 3, "NVIDIA L4", "node-a")
    assert (card.pci_bus_id, card.driver_version) == ("00000000:03:00.0", "580.105.08")
    assert card.itself.values == {GPU_TEMPERATURE: 40}


def test_655_the_host_is_read_from_either_spelling_of_its_label() -> None:
    """dcgm-exporter 655 renamed `Hostname` to `hostname`."""
    assert _card(line(TEMP, 40, Hostname="", hostname="node-b")).hostname == "node-b"
    assert _card(line(TEMP, 40, Hostname="node-c")).hostname == "node-c"


def test_272_the_old_namespace_writes_the_uuid_small() -> None:
    """dcgm-exporter 272: `uuid`, `pod_name`, names in small letters, and no host."""
    card = _card(f'{GR.lower()}{{gpu="4",uuid="GPU-c",device="nvidia4",pod_name="p1",pod_namespace="ns1"}} 0.008246')

    assert (card.gpu_uuid, card.hostname, card.model) == ("GPU-c", None, None)
    assert card.itself.values == {GPU_GR_ACTIVE: Fraction(8_246, 10**6)}


def test_an_index_is_found_by_the_device_where_no_label_counts() -> None:
    assert _card(line(TEMP, 40, gpu="", device="nvidia5")).index == 5
    assert _card(line(TEMP, 40, gpu="", device="")).index is None


def test_340_labels_that_prometheus_replaced_leave_one_card_with_one_value() -> None:
    """dcgm-exporter 340: `pod` is the exporter's own, `exported_pod` the workload's; three pods had the card."""
    pods = [line(TEMP, 40, pod="dcgm-exporter-x", exported_pod=f"p{number}", job="dcgm") for number in range(3)]

    assert _card(*pods).itself.values == {GPU_TEMPERATURE: 40}


def test_188_and_68_a_mig_instance_has_its_cards_uuid_and_a_number() -> None:
    """dcgm-exporter 68 and 188: with a pod and without one it is the same instance."""
    free = _card(line(GR, 0.4, "GPU-d", GPU_I_PROFILE="2g.12gb", GPU_I_ID="1", pod=""))
    used = _card(line(GR, 0.4, "GPU-d", GPU_I_PROFILE="2g.12gb", GPU_I_ID="1", pod="p", namespace="n"))

    assert free == used
    assert free.itself.values == {}
    assert [(each.mig_uuid, each.profile) for each in free.instances] == [("MIG-GPU-d/1/0", "2g.12gb")]


def test_587_copies_for_the_pods_of_a_shared_card_are_one_value() -> None:
    """dcgm-exporter 587: time slicing writes the device's value once per pod, and a sum would be 2.142."""
    copies = [line(GR, 0.714, vgpu=str(number), pod=f"w{number}") for number in range(3)]

    assert _card(*copies).itself.values == {GPU_GR_ACTIVE: Fraction(714, 1_000)}


def test_a_devices_own_value_counts_beside_those_of_its_pods() -> None:
    """With per-process metrics the pods have parts, and the device's own line stands beside them."""
    lines = [line(USED, 900, pod="p1"), line(USED, 1_000), line(USED, 100, pod="p2")]

    assert _card(*lines).itself.values[GPU_MEMORY_USED] == 1_000 * MIB
    behind_prometheus = [line(USED, 1_000, pod="dcgm-x"), line(USED, 900, pod="dcgm-x", exported_pod="p1")]
    assert _card(*behind_prometheus).itself.values[GPU_MEMORY_USED] == 1_000 * MIB


def test_pods_that_contradict_each_other_cost_the_field_and_are_told() -> None:
    found = _scrape(line(TEMP, 40), line(USED, 900, pod="p1"), line(USED, 100, pod="p2"))

    assert found.cards[0].itself.values == {GPU_TEMPERATURE: 40}
    assert found.cards[0].itself.garbled == {GPU_MEMORY_USED}
    assert [(row.line, row.reason) for row in found.refused] == [(3, f"{USED}: 2 values of one device in one scrape")]


def test_copies_that_are_blank_for_different_reasons_are_blank() -> None:
    found = _scrape(line(TEMP, 40), line(USED, 2**63 - 16, pod="p1"), line(USED, 2**63 - 14, pod="p2"))

    assert found.cards[0].itself.values == {GPU_TEMPERATURE: 40}
    assert (found.cards[0].itself.garbled, found.refused) == (frozenset(), ())


_WORDS = st.sampled_from(["0", "9" * 5_000, "GPU-1", ""])
_TEXTS = st.text(st.characters(exclude_characters='"\\\n'), max_size=9) | _WORDS
_LABELS = st.sampled_from(["gpu", "UUID", "device", "GPU_I_ID", "Hostname", "DCGM_FI_DRIVER_VERSION", "pod"])
_VALUES = st.integers() | st.floats() | st.sampled_from(["ERROR", 2**63 - 14, 2**31 - 16])


@given(st.lists(st.tuples(st.sampled_from([USED, TOTAL, UTIL, ENERGY, GR]), _VALUES, st.dictionaries(_LABELS, _TEXTS))))
def test_no_labels_and_no_values_break_the_reader(lines: list[tuple[str, object, dict[str, str]]]) -> None:
    found = _scrape(*(line(name, value, "GPU-1", 0, **labels) for name, value, labels in lines))

    for card in found.cards:
        for each in (card.itself, *card.instances):
            assert not each.values.keys() & each.garbled


def test_317_what_only_the_card_has_is_taken_from_its_instances_once() -> None:
    """R7, dcgm-exporter 317: the energy of the card is on each instance, read one after another. It is not theirs."""
    instances = [
        line(ENERGY, 126_272_101_025, GPU_I_ID="1", GPU_I_PROFILE="3g.20gb"),
        line(ENERGY, 126_272_106_318, GPU_I_ID="2", GPU_I_PROFILE="3g.20gb"),
        line(GR, 0.5, GPU_I_ID="2", GPU_I_PROFILE="3g.20gb"),
    ]

    card = _card(*instances)

    assert card.itself.values == {GPU_ENERGY: Fraction(126_272_106_318, 1_000)}
    assert [dict(each.values) for each in card.instances] == [{}, {GPU_GR_ACTIVE: Fraction(1, 2)}]
    own = _card(*instances, line(ENERGY, 126_272_000_000))
    assert own.itself.values[GPU_ENERGY] == 126_272_000, "the card's own line counts before those"


def test_216_a_card_in_mig_mode_is_not_idle_for_saying_0_percent() -> None:
    """dcgm-exporter 216: GPU_UTIL is 0 at 438 W; there is no such rate where MIG is on."""
    card = _card(line(UTIL, 0), line(UTIL, 0, GPU_I_ID="1"), line(GR, 0.9, GPU_I_ID="1"))

    assert card.itself.values == {}
    assert dict(card.instances[0].values) == {GPU_GR_ACTIVE: Fraction(9, 10)}
    assert _card(line(UTIL, 0)).itself.values == {GPU_BUSY: 0}, "without MIG 0 is a value"


def test_a_card_and_its_instances_in_one_page_keep_their_own_values() -> None:
    card = _card(line(GR, 0.99), line(USED, 4_845), line(GR, 0.98, GPU_I_ID="13"), line(USED, 10, GPU_I_ID="13"))

    assert card.itself.values == {GPU_GR_ACTIVE: Fraction(99, 100), GPU_MEMORY_USED: 4_845 * MIB}
    assert dict(card.instances[0].values) == {GPU_GR_ACTIVE: Fraction(98, 100), GPU_MEMORY_USED: 10 * MIB}


def test_380_an_instance_without_memory_has_none() -> None:
    """dcgm-exporter 380 and 512: H100 instances tell no framebuffer. That is not 0 bytes."""
    card = _card(*page("GPU-1").splitlines(), line(GR, 0.5, GPU_I_ID="7"))

    assert GPU_MEMORY_USED in card.itself.values
    assert GPU_MEMORY_USED not in card.instances[0].values


def test_271_used_and_free_are_no_total_without_what_the_driver_reserves() -> None:
    """R6, dcgm-exporter 271: 1,200 + 22,800 of 24,576 MiB."""
    parts = [line(USED, 1_200), line(FREE, 22_800)]

    assert GPU_MEMORY_TOTAL not in _card(*parts).itself.values
    whole = _card(*parts, line(RESERVED, 576)).itself.values
    assert (whole[GPU_MEMORY_TOTAL], whole[GPU_MEMORY_RESERVED]) == (24_576 * MIB, 576 * MIB)
    assert whole[GPU_MEMORY_USED] == 1_200 * MIB
    told = _card(*parts, line(RESERVED, 576), line(TOTAL, 24_564)).itself.values
    assert told[GPU_MEMORY_TOTAL] == 24_564 * MIB, "what is told counts before a sum"


def test_before_driver_510_used_memory_has_the_reserve_in_it() -> None:
    """DCGM asks such a driver in the old way: used and free are the total then, and used is not what tenants use."""
    told = ((USED, 1_200), (FREE, 23_376), (RESERVED, 2**63 - 14))

    values = _card(*(line(name, value, DCGM_FI_DRIVER_VERSION="470.57.02") for name, value in told)).itself.values

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
    found = _scrape(line(TEMP, "ERROR - FAILED TO CONVERT TO STRING"), line(USED, 10), line("DCGM_FI_X", "ERROR"))

    (card,) = found.cards
    assert card.itself.values == {GPU_MEMORY_USED: 10 * MIB}
    assert card.itself.garbled == {GPU_TEMPERATURE}
    assert [row.line for row in found.refused] == [1, 3]


def test_500_the_last_xid_is_a_state_of_the_card_and_counts_nothing() -> None:
    """dcgm-exporter 500: it stays until the driver is loaded again, so a second XID 31 does not show."""
    first, second = (_card(line("DCGM_FI_DEV_XID_ERRORS", 31)) for _ in range(2))

    assert first.itself.values == second.itself.values == {GPU_LAST_XID: 31}
    window = _scrape(line("DCGM_EXP_XID_ERRORS_COUNT", 1, window_size_in_ms="300000", xid="42"))
    assert window == Scrape((), ()), "a count within a window that moves is no counter"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"UUID": ""}, "cannot use '' as a GPU UUID"),
        ({"UUID": "GPU 1"}, "cannot use 'GPU 1' as a GPU UUID"),
        ({"GPU_I_ID": "x"}, "cannot use 'x' as a GPU_I_ID"),
        ({"GPU_I_ID": "-1"}, "cannot use '-1' as a GPU_I_ID"),
        ({"GPU_I_ID": "4294967295"}, "cannot use '4294967295' as a GPU_I_ID"),
    ],
)
def test_a_sample_of_nobody_is_told(labels: dict[str, str], words: str) -> None:
    found = _scrape(line(USED, 1), line(TEMP, 40, "GPU-1", 0, **labels))

    assert [dict(card.itself.values) for card in found.cards] == [{GPU_MEMORY_USED: MIB}]
    (row,) = found.refused
    assert row.line == 2
    assert words in row.reason


def test_a7_two_jobs_on_a_card_have_its_value_once_and_both_are_named() -> None:
    """A7: with two lines in the card's file each job has a full copy; a sum over them would be twice the card."""
    copies = [line(GR, 0.6, hpc_job=job) for job in ("11", "12")]

    itself = _card(*copies, *(line(USED, 900, hpc_job=job) for job in ("11", "12"))).itself

    assert itself.values == {GPU_GR_ACTIVE: Fraction(6, 10), GPU_MEMORY_USED: 900 * MIB}
    assert itself.jobs == {"11", "12"}


def test_a7_a_blank_line_in_the_file_of_jobs_is_no_job() -> None:
    """A7: the exporter makes a job without a name of it. It is the device's own line, whatever stands beside it."""
    for blank in ("", " "):
        copies = [f'{GR}{{gpu="0",UUID="GPU-1",hpc_job="{job}"}} 0.6' for job in (blank, "12")]
        itself = _card(*copies).itself

        assert itself.values == {GPU_GR_ACTIVE: Fraction(6, 10)}
        assert itself.jobs == {"12"}


def test_a7_jobs_of_mig_instances_are_those_of_each() -> None:
    """A7: the file of an instance is called `<card>.<instance>`."""
    card = _card(line(GR, 0.1, GPU_I_ID="1", hpc_job="11"), line(GR, 0.2, GPU_I_ID="2"))

    assert [each.jobs for each in card.instances] == [{"11"}, frozenset()]


def test_a10_a_pod_label_that_comes_and_goes_leaves_one_card() -> None:
    """A10: dcgm-exporter 237 and 342: what a card says is one series, whoever is on it."""
    with_pod, without = _card(line(GR, 0.6, pod="p1", namespace="n")), _card(line(GR, 0.6))

    assert with_pod.itself.values == without.itself.values
    assert (with_pod.gpu_uuid, with_pod.itself.mig_uuid) == (without.gpu_uuid, without.itself.mig_uuid)


def test_a11_cards_that_nobody_has_are_told_as_those_that_somebody_has() -> None:
    """A11: dcgm-exporter 569: of four cards one was allocated, and three had lines without a pod."""
    lines = [line(GR, 0.6, "GPU-0", 0, pod="p1", dra_claim_name="c")]
    lines += [line(GR, 0, f"GPU-{number}", number) for number in (1, 2, 3)]

    assert [card.gpu_uuid for card in _scrape(*lines).cards] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


def test_m7_the_old_name_of_an_instance_says_its_card_and_its_number() -> None:
    """M7: drivers before 470, dcgm-exporter 105."""
    (old,) = _card(line(GR, 0.5, "MIG-GPU-d/2/0")).instances
    (new,) = _card(line(GR, 0.5, "GPU-d", GPU_I_ID="2")).instances

    assert old.mig_uuid == new.mig_uuid == "MIG-GPU-d/2/0"
    assert read_mig_name("MIG-GPU-d/2/1") == ("GPU-d", 2, 1)
    assert read_mig_name("MIG-4e1a7c3e-5b07-5a1a-9e0f-7a2b5f0c9d11") is None, "no card and no number is in it"


def test_m8_instances_are_known_by_card_and_number_also_where_no_pod_is_matched() -> None:
    """M8: dcgm-exporter 272 joins pods by another key, and shows instances without one; they count all the same."""
    card = _card(line(USED, 30, GPU_I_ID="2", pod=""), line(USED, 50, GPU_I_ID="3", pod="p"))

    assert [(each.mig_uuid, each.values[GPU_MEMORY_USED] // MIB) for each in card.instances] == [
        ("MIG-GPU-1/2/0", 30),
        ("MIG-GPU-1/3/0", 50),
    ]


def test_m10_the_name_of_a_profile_decides_nothing() -> None:
    """M10: dcgm-exporter 544 names the wrong one on an H100 NVL."""
    wrong, right = (_card(line(GR, 0.5, GPU_I_ID="2", GPU_I_PROFILE=name)) for name in ("1g.10gb", "1g.12gb"))

    assert wrong.instances[0].values == right.instances[0].values
    assert wrong.instances[0].mig_uuid == right.instances[0].mig_uuid


def test_r10_the_last_xid_is_a_value_and_no_event() -> None:
    """R10: a second XID 31 leaves it as it is; dcgm-exporter 500."""
    card = _card(line("DCGM_FI_DEV_XID_ERRORS", 31), line("DCGM_EXP_XID_ERRORS_COUNT", 2, xid="31"))

    assert card.itself.values == {GPU_LAST_XID: 31}
    assert card.itself.parts == {}


def test_what_is_blank_says_why() -> None:
    """Not supported is not the same as not yet, nor as not allowed."""
    told = {TEMP: 2**63 - 14, USED: 2**63 - 13, GR: 140_737_488_355_328.0}

    missing = _card(*(line(name, value) for name, value in told.items())).itself.missing

    assert missing == {
        GPU_TEMPERATURE: FieldState.UNSUPPORTED,
        GPU_MEMORY_USED: FieldState.NO_PERMISSION,
        GPU_GR_ACTIVE: FieldState.NOT_READY,
    }


def test_m1_a_card_with_instances_says_that_it_has_no_busy_rate() -> None:
    """M1: GPU_UTIL of such a card is N/A, or 0 at 438 W."""
    card = _card(line(UTIL, 0), line(GR, 0.9, GPU_I_ID="1"))

    assert card.itself.missing[GPU_BUSY] is FieldState.UNSUPPORTED
