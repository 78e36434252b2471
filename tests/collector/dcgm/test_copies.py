"""Copies of a card's value, one for each pod or job: it is one value, whoever has the card."""

from fractions import Fraction

from domain.series import GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_TEMPERATURE
from domain.units import MIB
from tests.collector.dcgm_pages import GR, TEMP, USED, line, read_card, read_lines


def test_340_labels_that_prometheus_replaced_leave_one_card_with_one_value() -> None:
    """dcgm-exporter 340: `pod` is the exporter's own, `exported_pod` the workload's; three pods had the card."""
    pods = [line(TEMP, 40, pod="dcgm-exporter-x", exported_pod=f"p{number}", job="dcgm") for number in range(3)]

    assert read_card(*pods).itself.values == {GPU_TEMPERATURE: 40}


def test_587_copies_for_the_pods_of_a_shared_card_are_one_value() -> None:
    """dcgm-exporter 587: time slicing writes the device's value once per pod, and a sum would be 2.142."""
    copies = [line(GR, 0.714, vgpu=str(number), pod=f"w{number}") for number in range(3)]

    assert read_card(*copies).itself.values == {GPU_GR_ACTIVE: Fraction(714, 1_000)}


def test_a_devices_own_value_counts_beside_those_of_its_pods() -> None:
    """With per-process metrics the pods have parts, and the device's own line stands beside them."""
    lines = [line(USED, 900, pod="p1"), line(USED, 1_000), line(USED, 100, pod="p2")]

    assert read_card(*lines).itself.values[GPU_MEMORY_USED] == 1_000 * MIB
    behind_prometheus = [line(USED, 1_000, pod="dcgm-x"), line(USED, 900, pod="dcgm-x", exported_pod="p1")]
    assert read_card(*behind_prometheus).itself.values[GPU_MEMORY_USED] == 1_000 * MIB


def test_pods_that_contradict_each_other_cost_the_field_and_are_told() -> None:
    found = read_lines(line(TEMP, 40), line(USED, 900, pod="p1"), line(USED, 100, pod="p2"))

    assert found.cards[0].itself.values == {GPU_TEMPERATURE: 40}
    assert found.cards[0].itself.garbled == {GPU_MEMORY_USED}
    assert [(row.line, row.reason) for row in found.refused] == [(3, f"{USED}: 2 values of one device in one scrape")]


def test_copies_that_are_blank_for_different_reasons_are_blank() -> None:
    found = read_lines(line(TEMP, 40), line(USED, 2**63 - 16, pod="p1"), line(USED, 2**63 - 14, pod="p2"))

    assert found.cards[0].itself.values == {GPU_TEMPERATURE: 40}
    assert (found.cards[0].itself.garbled, found.refused) == (frozenset(), ())


def test_a7_two_jobs_on_a_card_have_its_value_once_and_both_are_named() -> None:
    """A7: with two lines in the card's file each job has a full copy; a sum over them would be twice the card."""
    copies = [line(GR, 0.6, hpc_job=job) for job in ("11", "12")]

    itself = read_card(*copies, *(line(USED, 900, hpc_job=job) for job in ("11", "12"))).itself

    assert itself.values == {GPU_GR_ACTIVE: Fraction(6, 10), GPU_MEMORY_USED: 900 * MIB}
    assert itself.jobs == {"11", "12"}


def test_a7_a_blank_line_in_the_file_of_jobs_is_no_job() -> None:
    """A7: the exporter makes a job without a name of it. It is the device's own line, whatever stands beside it."""
    for blank in ("", " "):
        copies = [f'{GR}{{gpu="0",UUID="GPU-1",hpc_job="{job}"}} 0.6' for job in (blank, "12")]
        itself = read_card(*copies).itself

        assert itself.values == {GPU_GR_ACTIVE: Fraction(6, 10)}
        assert itself.jobs == {"12"}


def test_a7_jobs_of_mig_instances_are_those_of_each() -> None:
    """A7: the file of an instance is called `<card>.<instance>`."""
    card = read_card(line(GR, 0.1, GPU_I_ID="1", hpc_job="11"), line(GR, 0.2, GPU_I_ID="2"))

    assert [each.jobs for each in card.instances] == [{"11"}, frozenset()]


def test_a10_a_pod_label_that_comes_and_goes_leaves_one_card() -> None:
    """A10: dcgm-exporter 237 and 342: what a card says is one series, whoever is on it."""
    with_pod, without = read_card(line(GR, 0.6, pod="p1", namespace="n")), read_card(line(GR, 0.6))

    assert with_pod.itself.values == without.itself.values
    assert (with_pod.gpu_uuid, with_pod.itself.mig_uuid) == (without.gpu_uuid, without.itself.mig_uuid)


def test_a11_cards_that_nobody_has_are_told_as_those_that_somebody_has() -> None:
    """A11: dcgm-exporter 569: of four cards one was allocated, and three had lines without a pod."""
    lines = [line(GR, 0.6, "GPU-0", 0, pod="p1", dra_claim_name="c")]
    lines += [line(GR, 0, f"GPU-{number}", number) for number in (1, 2, 3)]

    assert [card.gpu_uuid for card in read_lines(*lines).cards] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
