"""Which cards a dcgm-exporter has, and how large: what is told, what trembles, and what nobody tells."""

import pytest
from structlog.testing import capture_logs

from collector.dcgm.exporter import DcgmExporterSource
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import UNATTRIBUTED, OwnerUse
from domain.series import (
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.dcgm_pages import FIELDS, Exporter, line, page
from tests.collector.sample_logs import START_S

ENERGY, USED, RESERVED = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"
GR = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def test_the_inventory_is_what_the_page_says_of_each_card(dcgm_source: DcgmExporterSource) -> None:
    total_bytes = (9_791 + 5_120 + 447) * MIB

    assert dcgm_source.inventory() == tuple(
        Device(
            uuid=f"GPU-{index + 1}",
            index=index,
            model="Tesla T4",
            vram_total_bytes=total_bytes,
            vram_reserved_bytes=447 * MIB,
            pci_bus_id=f"00000000:0{index}:00.0",
            driver_version="580.105.08",
        )
        for index in (0, 1)
    )


def test_what_is_blank_for_a_moment_leaves_the_card_as_it_was(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    before = dcgm_source.inventory()
    exporter.says(page("GPU-1", "GPU-2", **{RESERVED: 2**63 - 14}))

    with capture_logs() as logs:
        assert dcgm_source.inventory() == before
        (reading,) = dcgm_source.read("GPU-1", START_S)

    assert logs == []
    assert reading.values[GPU_MEMORY_TOTAL] == before[0].vram_total_bytes
    assert reading.values[GPU_MEMORY_RESERVED] is None


def test_a_total_that_trembles_with_its_parts_is_one_number(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    """Each part is cut to MiB, so their sum changes by as much as two of them while nothing does."""
    parts = ((9_791, 5_120), (9_790, 5_119), (9_791, 5_121), (9_789, 5_120))
    totals = []
    for second, (free, used) in enumerate(parts):
        exporter.says(page("GPU-1", DCGM_FI_DEV_FB_FREE=free, DCGM_FI_DEV_FB_USED=used, **{ENERGY: second}))
        (device,) = dcgm_source.inventory()
        (reading,) = dcgm_source.read("GPU-1", START_S + second)
        assert reading.values[GPU_MEMORY_TOTAL] == device.vram_total_bytes
        totals.append(device.vram_total_bytes // MIB)
    assert totals == [15_358, 15_358, 15_359, 15_359]

    exporter.says(page("GPU-1", DCGM_FI_DEV_FB_TOTAL=14_000))
    assert dcgm_source.inventory()[0].vram_total_bytes == 14_000 * MIB, "ECC was switched on"


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ({RESERVED: None}, "does not tell its size"),
        ({"modelName": ""}, "does not tell its model"),
        ({"gpu": "", "device": ""}, "does not tell its index"),
        ({"modelName": "x" * 200}, "as a model"),
    ],
)
def test_a_card_of_which_too_little_is_told_is_left_out_and_said_once(
    dcgm_source: DcgmExporterSource, exporter: Exporter, without: dict[str, str | None], words: str
) -> None:
    fields = {name: value for name, value in FIELDS.items() if name not in without}
    labels = {name: text for name, text in without.items() if text is not None}
    lines = [line(name, value, "GPU-9", 9, **labels) for name, value in fields.items()]
    exporter.says(page("GPU-1") + "\n".join(lines) + "\n")

    with capture_logs() as logs:
        assert [device.uuid for device in dcgm_source.inventory()] == ["GPU-1"]
        dcgm_source.inventory()

    (told,) = [entry for entry in logs if entry["event"] == "card_left_out"]
    assert words in told["reason"]


def test_where_no_card_can_be_collected_the_reason_is_the_error(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    exporter.says(page("GPU-1", **{RESERVED: None}))

    with pytest.raises(UnavailableError, match="DCGM_FI_DEV_FB_TOTAL or _FREE, _USED and _RESERVED"):
        dcgm_source.inventory()


def test_a_card_in_mig_mode_is_sampled_with_its_instances_and_has_no_sizes(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    """A real A800 has no line of the whole card beside those of its instances (dcgm-exporter 272 joins by number)."""
    mig = {"modelName": "NVIDIA A800-SXM4-80GB", "GPU_I_PROFILE": "2g.20gb"}
    lines = [line(USED, 10 * each, "GPU-0", 5, GPU_I_ID=str(each), **mig) for each in (3, 5)]
    exporter.says(page("GPU-1") + "\n".join(lines) + "\n")

    with capture_logs() as logs:
        plain, device = dcgm_source.inventory()
        dcgm_source.inventory()

    assert (plain.mig_enabled, device.mig_enabled) == (False, True)
    assert (device.vram_total_bytes, device.sm_count, device.instances) == (0, None, ())
    assert len([entry for entry in logs if entry["event"] == "mig_card_not_recorded"]) == 1
    card, *instances = dcgm_source.read("GPU-0", START_S)
    assert {series: value for series, value in card.values.items() if value is not None} == {GPU_UP: 1}
    assert card.owners == {}, "owners are told per instance"
    assert [(each.mig_uuid, each.values[GPU_MEMORY_USED]) for each in instances] == [
        ("MIG-GPU-0/3/0", 30 * MIB),
        ("MIG-GPU-0/5/0", 50 * MIB),
    ]
    assert instances[0].owners == {UNATTRIBUTED: OwnerUse(30 * MIB, None)}
