"""Which card or MIG instance a sample is of, by its labels alone."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dcgm.mig_names import read_mig_name
from domain.series import GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_TEMPERATURE
from domain.units import MIB
from tests.collector.dcgm_pages import ENERGY, GR, TEMP, TOTAL, USED, UTIL, line, read_card, read_lines


def test_a_card_is_what_its_labels_say() -> None:
    card = read_card(line(TEMP, 40, "GPU-7", 3, modelName="NVIDIA L4"))

    assert (card.gpu_uuid, card.index, card.model, card.hostname) == ("GPU-7", 3, "NVIDIA L4", "node-a")
    assert (card.pci_bus_id, card.driver_version) == ("00000000:03:00.0", "580.105.08")
    assert card.itself.values == {GPU_TEMPERATURE: 40}


def test_655_the_host_is_read_from_either_spelling_of_its_label() -> None:
    """dcgm-exporter 655 renamed `Hostname` to `hostname`."""
    assert read_card(line(TEMP, 40, Hostname="", hostname="node-b")).hostname == "node-b"
    assert read_card(line(TEMP, 40, Hostname="node-c")).hostname == "node-c"


def test_272_the_old_namespace_writes_the_uuid_small() -> None:
    """dcgm-exporter 272: `uuid`, `pod_name`, names in small letters, and no host."""
    card = read_card(
        f'{GR.lower()}{{gpu="4",uuid="GPU-c",device="nvidia4",pod_name="p1",pod_namespace="ns1"}} 0.008246'
    )

    assert (card.gpu_uuid, card.hostname, card.model) == ("GPU-c", None, None)
    assert card.itself.values == {GPU_GR_ACTIVE: Fraction(8_246, 10**6)}


def test_an_index_is_found_by_the_device_where_no_label_counts() -> None:
    assert read_card(line(TEMP, 40, gpu="", device="nvidia5")).index == 5
    assert read_card(line(TEMP, 40, gpu="", device="")).index is None


def test_188_and_68_a_mig_instance_has_its_cards_uuid_and_a_number() -> None:
    """dcgm-exporter 68 and 188: with a pod and without one it is the same instance."""
    free = read_card(line(GR, 0.4, "GPU-d", GPU_I_PROFILE="2g.12gb", GPU_I_ID="1", pod=""))
    used = read_card(line(GR, 0.4, "GPU-d", GPU_I_PROFILE="2g.12gb", GPU_I_ID="1", pod="p", namespace="n"))

    assert free == used
    assert free.itself.values == {}
    assert [(each.mig_uuid, each.profile) for each in free.instances] == [("MIG-GPU-d/1/0", "2g.12gb")]


_WORDS = st.sampled_from(["0", "9" * 5_000, "GPU-1", ""])
_TEXTS = st.text(st.characters(exclude_characters='"\\\n'), max_size=9) | _WORDS
_LABELS = st.sampled_from(["gpu", "UUID", "device", "GPU_I_ID", "Hostname", "DCGM_FI_DRIVER_VERSION", "pod"])
_VALUES = st.integers() | st.floats() | st.sampled_from(["ERROR", 2**63 - 14, 2**31 - 16])


@given(st.lists(st.tuples(st.sampled_from([USED, TOTAL, UTIL, ENERGY, GR]), _VALUES, st.dictionaries(_LABELS, _TEXTS))))
def test_no_labels_and_no_values_break_the_reader(lines: list[tuple[str, object, dict[str, str]]]) -> None:
    found = read_lines(*(line(name, value, "GPU-1", 0, **labels) for name, value, labels in lines))

    for card in found.cards:
        for each in (card.itself, *card.instances):
            assert not each.values.keys() & each.garbled


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
    found = read_lines(line(USED, 1), line(TEMP, 40, "GPU-1", 0, **labels))

    assert [dict(card.itself.values) for card in found.cards] == [{GPU_MEMORY_USED: MIB}]
    (row,) = found.refused
    assert row.line == 2
    assert words in row.reason


def test_m7_the_old_name_of_an_instance_says_its_card_and_its_number() -> None:
    """M7: drivers before 470, dcgm-exporter 105."""
    (old,) = read_card(line(GR, 0.5, "MIG-GPU-d/2/0")).instances
    (new,) = read_card(line(GR, 0.5, "GPU-d", GPU_I_ID="2")).instances

    assert old.mig_uuid == new.mig_uuid == "MIG-GPU-d/2/0"
    assert read_mig_name("MIG-GPU-d/2/1") == ("GPU-d", 2, 1)
    assert read_mig_name("MIG-4e1a7c3e-5b07-5a1a-9e0f-7a2b5f0c9d11") is None, "no card and no number is in it"


def test_m8_instances_are_known_by_card_and_number_also_where_no_pod_is_matched() -> None:
    """M8: dcgm-exporter 272 joins pods by another key, and shows instances without one; they count all the same."""
    card = read_card(line(USED, 30, GPU_I_ID="2", pod=""), line(USED, 50, GPU_I_ID="3", pod="p"))

    assert [(each.mig_uuid, each.values[GPU_MEMORY_USED] // MIB) for each in card.instances] == [
        ("MIG-GPU-1/2/0", 30),
        ("MIG-GPU-1/3/0", 50),
    ]


def test_m10_the_name_of_a_profile_decides_nothing() -> None:
    """M10: dcgm-exporter 544 names the wrong one on an H100 NVL."""
    wrong, right = (read_card(line(GR, 0.5, GPU_I_ID="2", GPU_I_PROFILE=name)) for name in ("1g.10gb", "1g.12gb"))

    assert wrong.instances[0].values == right.instances[0].values
    assert wrong.instances[0].mig_uuid == right.instances[0].mig_uuid
