"""What a row leaves out comes from its card as it was then, else from its MIG profile, else it is asked for."""

from dataclasses import replace

import pytest

from allocator.records.csv_rows import Row
from allocator.records.resolve import KnownHardware, resolve
from domain.errors import InputError
from domain.grants import OPEN_END_US, GrantKind
from domain.period import Period
from domain.skus import load_skus
from domain.units import MIB
from store.capacity import DevicePeriod, MigPeriod

SKUS = load_skus()
NOTHING = KnownHardware({}, {})
L4 = DevicePeriod(
    "GPU-0", "n1", 0, "NVIDIA L4", "l4-24g", 1_000, 23_034 * MIB, 512 * MIB, False, (), 100, 2**30, Period(100, 200)
)
H100 = DevicePeriod(
    "GPU-9",
    "n1",
    1,
    "NVIDIA H100 80GB HBM3",
    "h100-80g",
    132,
    81_559 * MIB,
    600 * MIB,
    True,
    ("1g.10gb",),
    None,
    None,
    Period(100, OPEN_END_US),
)
INSTANCE = MigPeriod("MIG-1", "GPU-9", 7, "1g.10gb", 3, 1, 16, 9_900 * MIB, "ours", Period(150, OPEN_END_US))
KNOWN = KnownHardware({"GPU-0": [L4], "GPU-9": [H100]}, {"MIG-1": [INSTANCE]})
ROW = Row(
    line=2,
    allocation="a",
    tenant="acme",
    project="lab",
    node="n1",
    gpu_uuid="GPU-0",
    model="",
    kind=GrantKind.WHOLE,
    milli_gpu=None,
    vram_bytes=None,
    mig_profile=None,
    start_us=150,
    end_us=180,
    mig_uuid=None,
    mig_start=None,
    labels="{}",
    source_id=None,
)
SHARE = replace(ROW, kind=GrantKind.SHARE, milli_gpu=333)
MIG = replace(ROW, gpu_uuid="GPU-9", kind=GrantKind.MIG, mig_profile="1g.10gb")
RECORD = replace(ROW, gpu_uuid=None, node="", model="NVIDIA L4", vram_bytes=0)


def size(row: Row, known: KnownHardware = KNOWN) -> tuple[int, int, int]:
    grant = resolve(row, known, SKUS)
    return grant.compute_units, grant.compute_units_total, grant.vram_bytes


def test_a_whole_card_that_is_known_has_its_units_and_usable_vram() -> None:
    assert size(ROW) == (1_000, 1_000, 22_522 * MIB)
    assert (resolve(ROW, KNOWN, SKUS).model, resolve(ROW, KNOWN, SKUS).sku) == ("NVIDIA L4", "l4-24g")
    assert size(replace(ROW, gpu_uuid="GPU-9")) == (132, 132, 80_959 * MIB)


def test_a_share_has_the_same_proportion_of_vram_unless_it_says_how_much() -> None:
    assert size(SHARE) == (333, 1_000, 22_522 * 333 // 1_000 * MIB)
    assert size(replace(SHARE, vram_bytes=5)) == (333, 1_000, 5)


def test_a_mig_instance_has_the_size_its_hardware_reports_and_not_that_of_its_name() -> None:
    """gpustack #6054: 10 GB billed for a 1g.10gb."""
    grant = resolve(replace(MIG, mig_uuid="MIG-1"), KNOWN, SKUS)
    assert (grant.compute_units, grant.compute_units_total, grant.vram_bytes) == (16, 132, 9_900 * MIB)
    assert (grant.mig_start, grant.sku) == (3, "h100-80g/1g.10gb")
    assert size(replace(MIG, mig_uuid="MIG-1", vram_bytes=9_900 * MIB)) == (16, 132, 9_900 * MIB)


def test_an_instance_that_is_not_known_has_the_size_of_its_profile() -> None:
    assert size(MIG) == (16, 132, 9_984 * MIB)
    # Drivers differ by some MiB, and an export of what one reported is imported where nothing was.
    assert size(replace(MIG, mig_uuid="MIG-7", vram_bytes=9_900 * MIB)) == (16, 132, 9_900 * MIB)
    unknown = replace(MIG, gpu_uuid="GPU-x", model="NVIDIA A100-SXM4-80GB")
    assert size(unknown, NOTHING) == (14, 98, 9_856 * MIB)
    assert resolve(unknown, NOTHING, SKUS).sku == "a100-80g/1g.10gb"


def test_a_profile_nobody_knows_is_what_the_row_says() -> None:
    row = replace(MIG, gpu_uuid="GPU-x", model="Mystery", mig_profile="1g.1gb", milli_gpu=143, vram_bytes=7)
    assert size(row, NOTHING) == (143, 1_000, 7)
    with pytest.raises(InputError, match=r"nothing is known of the MIG profile '1g\.1gb' of a 'Mystery'"):
        size(replace(row, milli_gpu=None), NOTHING)


def test_without_a_device_the_units_are_thousandths_and_the_sku_is_by_model() -> None:
    assert size(RECORD) == (1_000, 1_000, 0)
    assert resolve(RECORD, KNOWN, SKUS).sku == "l4-24g"
    assert resolve(replace(RECORD, model="Odd Card"), KNOWN, SKUS).sku == "odd-card"
    assert resolve(replace(RECORD, model="Odd Card", vram_bytes=16 * 1024 * MIB), KNOWN, SKUS).sku == "odd-card-16g"


def test_a_card_is_known_only_within_its_period() -> None:
    late = replace(ROW, start_us=200, end_us=None, model="NVIDIA L4", vram_bytes=1)
    assert size(late) == (1_000, 1_000, 1)
    early = replace(ROW, start_us=50, end_us=101)
    assert size(early) == (1_000, 1_000, 22_522 * MIB)
    with pytest.raises(InputError, match="vram_mib is missing"):
        size(replace(late, vram_bytes=None))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (replace(ROW, model="NVIDIA T4"), "the card 'GPU-0' is a 'NVIDIA L4', not a 'NVIDIA T4'"),
        (replace(ROW, node="n2"), "is on the node 'n1' then, not on 'n2'"),
        (replace(RECORD, model=""), "the model is missing"),
        (replace(SHARE, gpu_uuid="GPU-9"), "is in MIG mode and has no shares"),
        (replace(MIG, gpu_uuid="GPU-0"), "is not in MIG mode then"),
        (replace(MIG, mig_uuid="MIG-1", mig_profile="2g.20gb"), "is a 1g.10gb, not a 2g.20gb"),
        (replace(MIG, mig_profile="9g.9gb"), "cannot find the MIG profile '9g.9gb'"),
        (replace(MIG, milli_gpu=125), "is 121 milli-GPU, not 125"),
        (
            replace(MIG, mig_uuid="MIG-1", vram_bytes=10_240 * MIB),
            "the MIG instance 'MIG-1' has 10380902400 bytes of VRAM, not 10737418240: leave vram_mib empty",
        ),
    ],
)
def test_a_row_that_contradicts_its_card_is_refused(row: Row, said: str) -> None:
    with pytest.raises(InputError, match=said):
        resolve(row, KNOWN, SKUS)


def test_a_card_that_nobody_reported_has_no_more_vram_than_its_model_comes_in() -> None:
    """As far as the SKU table knows the model; the driver's total is a little below the whole GiB, or above."""
    assert size(replace(RECORD, vram_bytes=23_034 * MIB), NOTHING)[2] == 23_034 * MIB
    with pytest.raises(InputError, match=r"25769803776 bytes of VRAM on a 'NVIDIA L4', which has 22 GiB: write less"):
        resolve(replace(RECORD, vram_bytes=24 * 2**30), NOTHING, SKUS)
    assert size(replace(RECORD, model="NVIDIA of tomorrow", vram_bytes=900 * 2**30), NOTHING)[2] == 900 * 2**30
