"""A driver by script that is read together with DCGM."""

from collections.abc import Callable
from dataclasses import replace

from collector.chosen_source import ChosenSource
from collector.source import ScriptedSource
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_POWER, GPU_SM_ACTIVE, GPU_UP
from domain.units import GIB, MIB
from tests.collector.engine_nodes import EngineNode

OpenBoth = Callable[..., tuple[EngineNode, ChosenSource]]

CARD = Device("GPU-1", 0, "NVIDIA A100-SXM4-80GB", 80 * GIB, 600 * MIB)
INSTANCES = tuple(
    MigInstance(f"MIG-driver-{gi_id}", gi_id, "1g.10gb", start, 1, 14, 10 * GIB) for start, gi_id in enumerate((1, 7))
)

# An A100: 98 of its 108 SMs can be had by instances, 14 and 42 of them are.
A100 = replace(CARD, mig_enabled=True, sm_count=98, instances=(INSTANCES[0], replace(INSTANCES[1], sm_count=42)))
_UNTOLD = dict.fromkeys((GPU_BUSY, GPU_COMPUTE, GPU_GR_ACTIVE, GPU_SM_ACTIVE), FieldState.UNSUPPORTED)


class ScriptedNvml:
    """NVML by script: `answer` is what it does when a card is read."""

    def __init__(self, *devices: Device) -> None:
        self.answer: Callable[[str, int], list[DeviceReading]] = self.says
        self.source = ScriptedSource(devices, lambda uuid, second_s: self.answer(uuid, second_s))

    def says(self, uuid: str, _: int) -> list[DeviceReading]:
        """An A100: no counters of the SMs, and owners of the memory."""
        device = next(device for device in self.source.devices if device.uuid == uuid)
        values = {GPU_UP: 1, GPU_BUSY: 0.9, GPU_SM_ACTIVE: None, GPU_POWER: 300.5, GPU_COMPUTE: 0.9}
        missing = {GPU_SM_ACTIVE: FieldState.UNSUPPORTED}
        memory = {GPU_MEMORY_USED: 100 * MIB}
        mine = {"alloc:a": OwnerUse(60 * MIB, None), UNATTRIBUTED: OwnerUse(40 * MIB, None)}
        card = DeviceReading(uuid, None, values | memory, {} if device.instances else mine, missing=missing)
        instances = [
            DeviceReading(uuid, each.uuid, {GPU_UP: 1, GPU_SM_ACTIVE: None, **memory}, mine, missing=missing)
            for each in device.instances
        ]
        return [card, *instances]

    def is_away(self, uuid: str, _: int) -> list[DeviceReading]:
        """It does not answer, as where its driver is unloaded."""
        raise UnavailableError(f"cannot read the card {uuid!r}: no driver is loaded; load it")


class MigNvml(ScriptedNvml):
    """NVML of a card in MIG mode, which tells nothing of its instances; `ratios` are what it tells all the same."""

    def __init__(self) -> None:
        super().__init__(A100)
        self.ratios: dict[str, float] = {}

    def says(self, uuid: str, _: int) -> list[DeviceReading]:
        device = next(device for device in self.source.devices if device.uuid == uuid)
        instances = [_reading(uuid, each.uuid, self.ratios.get(each.uuid)) for each in device.instances]
        return [_reading(uuid, None, None), *instances]


def read_card(node: EngineNode, source: ChosenSource, seconds: int = 1) -> DeviceReading:
    """What is told of the card itself in the last of so many seconds."""
    for _ in range(seconds):
        node.engine.advance_s()
        reading, *_ = source.read("GPU-1", node.now_s)
    return reading


def _reading(uuid: str, mig_uuid: str | None, ratio: float | None) -> DeviceReading:
    if ratio is None:
        return DeviceReading(uuid, mig_uuid, {GPU_UP: 1, **dict.fromkeys(_UNTOLD)}, {}, missing=_UNTOLD)
    values = {GPU_UP: 1, GPU_GR_ACTIVE: ratio, GPU_SM_ACTIVE: ratio / 2, GPU_COMPUTE: ratio / 2}
    return DeviceReading(uuid, mig_uuid, values, {}, bases={GPU_COMPUTE: Basis("nvml", "sm_active")})
