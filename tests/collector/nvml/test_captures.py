"""What four real cards told, idle and at work, as another program has put it into base units."""

import re
from pathlib import Path

import pytest

from domain.samples import FieldState
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_DECODER_BUSY,
    GPU_ENCODER_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_POWER_INSTANT,
    GPU_ROW_REMAP_FAILED,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    Series,
)
from tests.collector.nvml.value_rig import ValueRig, number, state_of
from tests.fakes.nvml.driver import Can

CAPTURES = Path(__file__).parents[4] / "shared" / "data" / "nvidia-smi-captures"
METRICS = sorted(CAPTURES.glob("linux-*.metrics"))
# The series, the metric of the capture, the member of the fake's card, and the driver's units in a base unit.
TOLD: tuple[tuple[Series, str, str, float], ...] = (
    (GPU_MEMORY_TOTAL, "memory_total_bytes", "total", 1),
    (GPU_MEMORY_RESERVED, "memory_reserved_bytes", "reserved", 1),
    (GPU_MEMORY_USED, "memory_used_bytes", "used", 1),
    (GPU_BUSY, "utilization_gpu_ratio", "busy_percent", 100),
    (GPU_MEMORY_BUSY, "utilization_memory_ratio", "memory_percent", 100),
    (GPU_ENCODER_BUSY, "utilization_encoder_ratio", "encoder_percent", 100),
    (GPU_DECODER_BUSY, "utilization_decoder_ratio", "decoder_percent", 100),
    (GPU_POWER, "power_draw_average_watts", "milliwatts", 1_000),
    (GPU_POWER_INSTANT, "power_draw_instant_watts", "milliwatts_instant", 1_000),
    (GPU_TEMPERATURE, "temperature_gpu", "celsius", 1),
    (GPU_MEMORY_TEMPERATURE, "temperature_memory", "memory_celsius", 1),
    (GPU_SM_CLOCK, "clocks_current_sm_clock_hz", "sm_megahertz", 1e-6),
    (GPU_MEMORY_CLOCK, "clocks_current_memory_clock_hz", "memory_megahertz", 1e-6),
    (GPU_ROW_REMAP_FAILED, "remapped_rows_failure", "remapping_failed", 1),
)
# What a card does not tell where the capture lacks the metric.
LACKS = {"temperature_memory": Can.MEMORY_TEMPERATURE, "remapped_rows_failure": Can.ROW_REMAP}


@pytest.mark.skipif(not METRICS, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("path", METRICS, ids=lambda path: path.stem.removeprefix("linux-x86_64__"))
def test_a_real_card_comes_out_as_another_program_tells_it(values: ValueRig, path: Path) -> None:
    """M1: of the H100 in MIG mode neither tells a utilisation, at 434 W."""
    metrics = {
        name: float(value)
        for name, value in re.findall(r"^nvidia_smi_(\w+)\{[^}]*\} (\S+)$", path.read_text(), flags=re.MULTILINE)
    }
    is_mig = "mig" in path.name
    fields = {member: round(metrics[name] * units) for _, name, member, units in TOLD if name in metrics}
    uuid = values.fake.card(0, "any", mig_mode=int(is_mig))
    values.fake.set(uuid, **fields)
    for name, ability in LACKS.items():
        if name not in metrics:
            values.fake.deny(uuid, ability)
    values.fake.deny(uuid, Can.GPM | Can.ECC)

    said = values.card(uuid, is_mig=is_mig).read()

    for series, name, _, _ in TOLD:
        if name in metrics:
            assert said.values[series] == pytest.approx(metrics[name], rel=1e-9), series.name
        else:
            assert state_of(said, series) is FieldState.UNSUPPORTED, series.name
    assert said.values[GPU_COMPUTE] == said.values[GPU_BUSY]
    assert number(said, GPU_MEMORY_USED) + number(said, GPU_MEMORY_RESERVED) <= number(said, GPU_MEMORY_TOTAL)
