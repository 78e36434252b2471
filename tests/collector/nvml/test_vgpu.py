"""Virtual cards of a host of such, by their UUIDs."""

from typing import Any

import pynvml

from domain.samples import FieldState
from domain.series import GPU_VGPU_BUSY, GPU_VGPU_MEMORY
from domain.units import GIB
from tests.collector.nvml.value_rig import START_US, ValueRig, state_of

HOST = pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU


def _vgpu(number: int, sm: int, used_bytes: int, at_us: int = START_US) -> dict[str, Any]:
    return {"id": number, "uuid": f"vgpu-{number}", "sm": sm, "used_bytes": used_bytes, "at_us": at_us}


def test_each_virtual_card_has_its_own_ratio_and_memory(values: ValueRig) -> None:
    """Its memory has more than 32 bits, of which the bindings keep 32."""
    uuid = values.fake.card(0, "NVIDIA L40S", virtualization_mode=HOST)
    values.fake.vgpus(uuid, [_vgpu(11, 40, 6 * GIB), _vgpu(12, 0, 512)])

    said = values.card(uuid).read()

    assert said.parts[GPU_VGPU_BUSY] == {"vgpu-11": 0.4, "vgpu-12": 0}
    assert said.parts[GPU_VGPU_MEMORY] == {"vgpu-11": 6 * GIB, "vgpu-12": 512}


def test_what_a_virtual_card_did_before_is_not_what_it_does(values: ValueRig) -> None:
    uuid = values.fake.card(0, "NVIDIA L40S", virtualization_mode=HOST)
    values.fake.vgpus(uuid, [_vgpu(11, 90, GIB, START_US - 9_000_000), _vgpu(12, 30, GIB)])
    card = values.card(uuid)
    assert card.read().parts[GPU_VGPU_BUSY] == {"vgpu-12": 0.3}

    said = values.after(card)

    assert state_of(said, GPU_VGPU_BUSY) is FieldState.NOT_READY, "nothing new was told"
    assert set(said.parts[GPU_VGPU_MEMORY]) == {"vgpu-11", "vgpu-12"}


def test_a_number_that_is_used_again_is_another_virtual_card(values: ValueRig) -> None:
    uuid = values.fake.card(0, "NVIDIA L40S", virtualization_mode=HOST)
    values.fake.vgpus(uuid, [_vgpu(11, 1, GIB)])
    card = values.card(uuid)
    card.read()
    values.fake.vgpus(uuid, [])
    said = values.after(card)
    assert not {GPU_VGPU_MEMORY, GPU_VGPU_BUSY} & (said.parts.keys() | said.missing.keys()), "there is nobody to miss"

    values.fake.vgpus(uuid, [{**_vgpu(11, 1, 7), "uuid": "another"}])
    assert values.after(card).parts[GPU_VGPU_MEMORY] == {"another": 7}


def test_a_card_that_is_not_cut_is_not_asked(values: ValueRig) -> None:
    card = values.card(values.fake.card(0, "NVIDIA L40S"))
    for _ in range(3):
        said = values.after(card)

    assert GPU_VGPU_BUSY not in said.missing
    assert values.fake.calls("nvmlDeviceGetActiveVgpus") == 0
    assert values.fake.calls("nvmlDeviceGetVirtualizationMode") == 1


def test_virtual_cards_that_cannot_be_listed_are_missing(values: ValueRig) -> None:
    uuid = values.fake.card(0, "NVIDIA L40S", virtualization_mode=HOST)
    values.fake.fault(pynvml.NVML_ERROR_NO_PERMISSION, "nvmlDeviceGetActiveVgpus")

    said = values.card(uuid).read()

    assert state_of(said, GPU_VGPU_BUSY) is state_of(said, GPU_VGPU_MEMORY) is FieldState.NO_PERMISSION


def test_a_virtual_card_whose_name_is_no_text_costs_itself_only(values: ValueRig) -> None:
    uuid = values.fake.card(0, "NVIDIA L40S", virtualization_mode=HOST)
    values.fake.vgpus(uuid, [_vgpu(11, 1, GIB), _vgpu(12, 1, 7)])
    values.fake.card_of(uuid).vgpus[0].uuid = b"\xff"

    assert values.card(uuid).read().parts[GPU_VGPU_MEMORY] == {"vgpu-12": 7}
