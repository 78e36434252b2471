"""What a card or a MIG instance says of itself, second by second."""

from domain.series.series import COUNTER, DEVICE, GAUGE, INFO, OWNER, Series, by_part

GPU_UP = Series("gpu_up", "bool", GAUGE, "1 while the card answers, 0 while it is lost", DEVICE, True)
GPU_BUSY = Series("gpu_busy_ratio", "ratio", GAUGE, "share of the second in which some kernel ran", DEVICE)
GPU_SM_ACTIVE = Series(
    "gpu_sm_active_ratio", "ratio", GAUGE, "share of the second an SM had work, averaged over the SMs", DEVICE
)
GPU_SM_OCCUPANCY = Series(
    "gpu_sm_occupancy_ratio", "ratio", GAUGE, "resident warps as a share of what the SMs can hold", DEVICE
)
GPU_GR_ACTIVE = Series(
    "gpu_gr_active_ratio",
    "ratio",
    GAUGE,
    "share of the second in which the graphics or compute engine was active; MIG instances have it too",
    DEVICE,
)
GPU_TENSOR_ACTIVE = Series(
    "gpu_tensor_active_ratio", "ratio", GAUGE, "share of cycles in which the tensor pipe was active", DEVICE
)
GPU_DRAM_ACTIVE = Series(
    "gpu_dram_active_ratio", "ratio", GAUGE, "share of cycles in which VRAM was read or written", DEVICE
)
GPU_SM_ACTIVE_CYCLES = Series(
    "gpu_sm_active_cycles_total", "cycles", COUNTER, "cycles in which an SM had work, added up over the SMs", DEVICE
)
GPU_SM_ELAPSED_CYCLES = Series(
    "gpu_sm_elapsed_cycles_total", "cycles", COUNTER, "cycles that passed, added up over the SMs", DEVICE
)
GPU_FP64_ACTIVE = Series(
    "gpu_fp64_active_ratio", "ratio", GAUGE, "share of cycles in which the 64-bit pipe was active", DEVICE
)
GPU_FP32_ACTIVE = Series(
    "gpu_fp32_active_ratio", "ratio", GAUGE, "share of cycles in which the 32-bit pipe was active", DEVICE
)
GPU_FP16_ACTIVE = Series(
    "gpu_fp16_active_ratio", "ratio", GAUGE, "share of cycles in which the 16-bit pipe was active", DEVICE
)
GPU_COMPUTE = Series(
    "gpu_compute_ratio",
    "ratio",
    GAUGE,
    "how much the device computed, as well as it can tell; `gpu_basis_info` says by which of its series",
    DEVICE,
)
GPU_MEMORY_BUSY = Series(
    "gpu_memory_busy_ratio",
    "ratio",
    GAUGE,
    "share of the second in which some kernel read or wrote VRAM; how much of it is used is another matter",
    DEVICE,
)
GPU_ENCODER_BUSY = Series("gpu_encoder_busy_ratio", "ratio", GAUGE, "use of the video encoders", DEVICE)
GPU_DECODER_BUSY = Series("gpu_decoder_busy_ratio", "ratio", GAUGE, "use of the video decoders", DEVICE)
GPU_JPEG_BUSY = Series("gpu_jpeg_busy_ratio", "ratio", GAUGE, "use of the JPEG decoders", DEVICE)
GPU_OFA_BUSY = Series("gpu_ofa_busy_ratio", "ratio", GAUGE, "use of the optical flow accelerator", DEVICE)
GPU_MEMORY_TOTAL = Series("gpu_memory_total_bytes", "bytes", GAUGE, "VRAM on the card", DEVICE, True)
GPU_MEMORY_RESERVED = Series(
    "gpu_memory_reserved_bytes", "bytes", GAUGE, "VRAM the driver keeps for itself", DEVICE, True
)
GPU_MEMORY_USED = Series(
    "gpu_memory_used_bytes",
    "bytes",
    GAUGE,
    "VRAM in use, without what the driver reserves",
    DEVICE,
    True,
)
GPU_POWER = Series("gpu_power_watts", "watts", GAUGE, "power drawn by the card", DEVICE)
GPU_POWER_INSTANT = Series(
    "gpu_power_instant_watts", "watts", GAUGE, "power drawn at the moment of the reading, not its average", DEVICE
)
GPU_ENERGY = Series(
    "gpu_energy_joules_total",
    "joules",
    COUNTER,
    "energy since the driver was loaded; where the card counts none, since the collector began to add up its power",
    DEVICE,
)
GPU_TEMPERATURE = Series("gpu_temperature_celsius", "celsius", GAUGE, "temperature of the core", DEVICE)
GPU_MEMORY_TEMPERATURE = Series("gpu_memory_temperature_celsius", "celsius", GAUGE, "temperature of the memory", DEVICE)
GPU_SM_CLOCK = Series("gpu_sm_clock_hertz", "hertz", GAUGE, "clock of the SMs", DEVICE)
GPU_MEMORY_CLOCK = Series("gpu_memory_clock_hertz", "hertz", GAUGE, "clock of the memory", DEVICE)
GPU_PCIE_RECEIVED = Series(
    "gpu_pcie_received_bytes_total", "bytes", COUNTER, "bytes that came to the device over PCIe", DEVICE
)
GPU_PCIE_TRANSMITTED = Series(
    "gpu_pcie_transmitted_bytes_total", "bytes", COUNTER, "bytes that left the device over PCIe", DEVICE
)
GPU_NVLINK_RECEIVED = by_part(
    "gpu_nvlink_received_bytes_total", "bytes", COUNTER, "link", "bytes that came over an NVLink, `all` for all of them"
)
GPU_NVLINK_TRANSMITTED = by_part(
    "gpu_nvlink_transmitted_bytes_total", "bytes", COUNTER, "link", "bytes that left over an NVLink, `all` for all"
)
GPU_VGPU_BUSY = by_part("gpu_vgpu_busy_ratio", "ratio", GAUGE, "vgpu", "busy ratio by virtual GPU of a host of such")
GPU_VGPU_MEMORY = by_part("gpu_vgpu_memory_bytes", "bytes", GAUGE, "vgpu", "VRAM used by virtual GPU", whole=True)
GPU_INFO = Series(
    "gpu_info",
    "info",
    INFO,
    "1; what is known of a card beside its numbers",
    (
        "node",
        "gpu_uuid",
        "index",
        "minor",
        "model",
        "architecture",
        "driver_version",
        "vbios_version",
        "pci_bus_id",
        "numa_node",
    ),
)
MIG_INFO = Series(
    "mig_info",
    "info",
    INFO,
    "1; what is known of a MIG instance beside its numbers; a number that is used again is of the next generation",
    ("node", "gpu_uuid", "mig_uuid", "gi_id", "generation", "profile"),
)
GPU_TOPOLOGY_LINK = Series(
    "gpu_topology_link",
    "links",
    GAUGE,
    "how two cards of a node reach each other: the level of the way between them, and whether one can read the other's "
    "memory (`ok`, or why not); the NVLinks there are, 0 for none",
    ("node", "gpu_uuid", "peer", "level", "peer_access"),
    True,
)

OWNER_MEMORY = Series("gpu_owner_memory_bytes", "bytes", GAUGE, "VRAM by owner; owners sum to the device", OWNER, True)
OWNER_COMPUTE = Series(
    "gpu_owner_compute_ratio",
    "ratio",
    GAUGE,
    "busy ratio by owner; owners sum to the device, on a MIG instance to its graphics engine's",
    OWNER,
)
