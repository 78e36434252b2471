"""What each owner uses of a device; owners always sum to the device."""

from collections import Counter
from collections.abc import Mapping

from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import GPU_MEMORY_USED, GPU_UP, Series


def split(used_bytes: int, claims: Mapping[int, int | None], owners: Mapping[int, str]) -> dict[str, OwnerUse]:
    """Bytes of a device by owner, the rest being `unattributed`; they sum to `used_bytes`.

    `claims` are the bytes of each process on it, None where the driver does not say: such a process adds nothing
    to its owner, whose bytes are then at least those told. `owners` are those proved. Where processes claim more
    than is used the sum is more, too, and no reading that can be believed.
    """
    told = {pid: claimed for pid, claimed in claims.items() if claimed is not None}
    by_owner: Counter[str] = Counter()
    for pid, claimed in told.items():
        by_owner[owners.get(pid, UNATTRIBUTED)] += claimed
    unclaimed = used_bytes - sum(told.values())
    by_owner[UNATTRIBUTED] += max(0, unclaimed)
    return {owner: OwnerUse(owner_bytes, None) for owner, owner_bytes in by_owner.items()}


def owned_reading(
    gpu_uuid: str,
    mig_uuid: str | None,
    values: Mapping[Series, int | float | None],
    claims: Mapping[int, int | None] | None,
    owners: Mapping[int, str],
) -> DeviceReading:
    """The reading of a device that is there, with what each owner uses of it; see `split`.

    `claims` is None where owners are not told of this device.
    """
    used_bytes = values[GPU_MEMORY_USED]
    uses = {} if used_bytes is None or claims is None else split(int(used_bytes), claims, owners)
    return DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 1, **values}, uses)
