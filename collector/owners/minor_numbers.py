"""Cards by the number of their device file: Slurm and the device cgroup count them so, NVML and CUDA otherwise.

NVML's index of a card is another number (jobstats 34), so what names a card by minor number is joined with the UUID
here and by nothing else.
"""

from collections import Counter
from collections.abc import Iterable

from domain.inventory import Device


def uuid_by_minor(devices: Iterable[Device]) -> dict[int, str]:
    """The UUID of each card by its minor number; one that does not tell its own, or tells another's, is left out."""
    told = [(device.minor, device.uuid) for device in devices if device.minor is not None]
    times = Counter(minor for minor, _ in told)
    return {minor: uuid for minor, uuid in told if times[minor] == 1}
