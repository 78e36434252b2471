"""Cards by minor number, which is Slurm's and not NVML's index."""

from dataclasses import replace

from collector.owners.minor_numbers import uuid_by_minor
from domain.inventory import Device

CARD = Device("GPU-a", 0, "NVIDIA A100-SXM4-80GB", 80 << 30, 0)


def test_a_card_is_found_by_its_minor_number_whatever_its_index() -> None:
    """A8: Slurm says GPU 0, which is minor number 0; NVML's index of that card is 6."""
    devices = [replace(CARD, uuid=f"GPU-{minor}", index=index, minor=minor) for index, minor in ((0, 6), (6, 0))]

    assert uuid_by_minor(devices) == {0: "GPU-0", 6: "GPU-6"}


def test_a_number_that_is_not_told_or_told_twice_names_no_card() -> None:
    devices = [replace(CARD, uuid=uuid, minor=minor) for uuid, minor in (("a", 0), ("b", 0), ("c", None), ("d", 1))]

    assert uuid_by_minor(devices) == {1: "d"}
