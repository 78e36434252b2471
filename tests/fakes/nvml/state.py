"""The world of the fake driver as it lies in its file: the structs of `library/state.h`, and who may write when.

A test compares every size and offset with what the library was built with.
"""

import ctypes
import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char, c_int32, c_uint32, c_uint64
from pathlib import Path
from typing import Any, ClassVar

MAGIC = 0x6C6D766E656B6166
CARDS, INSTANCES, PROCESSES, SAMPLES, SAMPLE_KINDS = 64, 32, 512, 128, 10
LINKS, LINK_ERRORS, LOCATIONS, PAGES, ACCOUNTS = 18, 5, 8, 64, 128
VGPUS, VGPU_PROCESSES, FAULTS, EVENTS, CLIENTS, TALLIES = 32, 64, 64, 256, 32, 512
GPM_RATIOS = 14
NONE = 0xFFFFFFFF


class _Struct(ctypes.Structure):
    """A struct of the file. A name that it does not have is an error, as ctypes would not say."""

    _fields_: ClassVar[Any] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"cannot set {name!r}: {type(self).__name__} has no such member; see state.h")
        super().__setattr__(name, value)


def _members(words: str = "", whole: str = "") -> list[tuple[str, Any]]:
    """Members of eight bytes, then members of four."""
    return [*((name, c_uint64) for name in whole.split()), *((name, c_uint32) for name in words.split())]


class Counter(_Struct):
    """base + rate x (now - since)."""

    _fields_: ClassVar[Any] = _members(whole="base since_us rate")


class Process(_Struct):
    """One on the lists of running processes, and what its kernels do where the card is simulated."""

    _fields_: ClassVar[Any] = _members(
        whole="used_bytes protected_bytes from_us until_us period_us offset_us on_us",
        words="exists list pid gi_id ci_id sm_permille memory_permille overlaps",
    )


class Use(_Struct):
    """What a process did, in percent."""

    _fields_: ClassVar[Any] = _members(whole="at_us", words="pid sm memory encoder decoder jpeg ofa exists")


class Sample(_Struct):
    """One of the driver's finer samples."""

    _fields_: ClassVar[Any] = _members(whole="at_us value")


class Buffer(_Struct):
    """Those of one kind, by rising time."""

    _fields_: ClassVar[Any] = [("count", c_uint64), ("rows", Sample * SAMPLES)]


class Link(_Struct):
    """One NVLink of a card."""

    _fields_: ClassVar[Any] = [
        *_members(whole="data_tx_bytes data_rx_bytes raw_tx_bytes raw_rx_bytes"),
        ("errors", c_uint64 * LINK_ERRORS),
        *_members(words="exists active version speed_mbps remote_type remote_link"),
        ("remote_bus_id", c_char * 32),
    ]


class Account(_Struct):
    """What a process did in all."""

    _fields_: ClassVar[Any] = _members(
        whole="memory_bytes_max time_ms started_us", words="pid gpu_percent memory_percent is_running"
    )


class Vgpu(_Struct):
    """A virtual card."""

    _fields_: ClassVar[Any] = [
        *_members(whole="at_us used_bytes", words="id type_id sm memory encoder decoder jpeg ofa"),
        ("vm_id", c_char * 96),
        ("uuid", c_char * 96),
    ]


class VgpuProcess(_Struct):
    """A process on a virtual card."""

    _fields_: ClassVar[Any] = [
        *_members(whole="at_us", words="vgpu_id pid sm memory encoder decoder jpeg ofa"),
        ("name", c_char * 64),
    ]


class Instance(_Struct):
    """A MIG device: a compute instance, with what there is to say of its GPU instance."""

    _fields_: ClassVar[Any] = [
        *_members(whole="total reserved used memory_mib pcie_tx_bytes pcie_rx_bytes"),
        ("gpm", Counter * GPM_RATIOS),
        *_members(words="exists generation gi_id ci_id gi_profile start size gi_slices ci_slices sms"),
        ("uuid", c_char * 96),
        ("name", c_char * 96),
    ]


class Card(_Struct):
    """A card and all that is on it."""

    _fields_: ClassVar[Any] = [
        *_members(
            whole="abilities total reserved used millijoules energy_step_us sample_period_us simulated_from_us "
            "clock_event_reasons pcie_tx_bytes pcie_rx_bytes pcie_tx_bytes_per_busy_second "
            "pcie_rx_bytes_per_busy_second supported_events accounting_mode"
        ),
        ("perf_policy_ns", c_uint64 * 8),
        ("clock_event_ns", c_uint64 * 3),
        ("ecc_corrected", c_uint64 * 2),
        ("ecc_uncorrected", c_uint64 * 2),
        ("ecc_corrected_at", c_uint64 * LOCATIONS),
        ("ecc_uncorrected_at", c_uint64 * LOCATIONS),
        ("gpm", Counter * GPM_RATIOS),
        *_members(words="exists lost_code minor"),
        ("numa_node", c_int32),
        *_members(
            words="architecture compute_major compute_minor persistence_mode virtualization_mode pci_domain pci_bus "
            "pci_device pci_device_id pci_subsystem_id simulated sms busy_percent memory_percent encoder_percent "
            "decoder_percent jpeg_percent ofa_percent milliwatts milliwatts_instant idle_milliwatts "
            "dynamic_milliwatts limit_milliwatts celsius memory_celsius sm_megahertz memory_megahertz video_megahertz "
            "performance_state pcie_tx_kib_per_s pcie_rx_kib_per_s pcie_replays ecc_mode remapped_correctable "
            "remapped_uncorrectable remapping_pending remapping_failed retirement_pending recovery_action "
            "gpm_streaming mig_mode mig_mode_pending full_card_profile full_card_sms link_count"
        ),
        ("retired_pages", c_uint32 * 2),
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        ("serial", c_char * 32),
        ("vbios", c_char * 32),
        ("bus_id", c_char * 32),
        ("topology", c_uint32 * CARDS),
        ("p2p", c_uint32 * CARDS),
        ("links", Link * LINKS),
        ("instances", Instance * INSTANCES),
        ("process_count", c_uint64),
        ("processes", Process * PROCESSES),
        ("use_count", c_uint64),
        ("uses", Use * PROCESSES),
        ("samples", Buffer * SAMPLE_KINDS),
        ("account_count", c_uint64),
        ("accounts", Account * ACCOUNTS),
        ("vgpu_count", c_uint64),
        ("vgpus", Vgpu * VGPUS),
        ("vgpu_process_count", c_uint64),
        ("vgpu_processes", VgpuProcess * VGPU_PROCESSES),
    ]


class Fault(_Struct):
    """What goes wrong with which call of which card; the last three are the library's."""

    _fields_: ClassVar[Any] = [
        *_members(whole="garbage seed"),
        ("call", c_char * 64),
        *_members(words="exists slot row entry"),
        ("code", c_int32),
        *_members(words="has_garbage hangs delay_us after times per_million tag"),
        *_members(whole="calls hits waiting"),
    ]


class Event(_Struct):
    """Something that happened to a card, or to the driver."""

    _fields_: ClassVar[Any] = _members(whole="type data at_us", words="slot gi_id ci_id is_system")


class Client(_Struct):
    """What a process has open; the library's."""

    _fields_: ClassVar[Any] = _members(words="pid inits event_sets system_event_sets gpm_samples inits_ever")


class Tally(_Struct):
    """How often a call was made; the library's."""

    _fields_: ClassVar[Any] = [("calls", c_uint64), ("call", c_char * 64)]


class World(_Struct):
    """The whole file."""

    _fields_: ClassVar[Any] = [
        *_members(whole="magic bytes sequence generation load"),
        ("driver_code", c_int32),
        *_members(words="wake"),
        *_members(whole="now_us shift_us boot_us"),
        *_members(words="process_entry_bytes process_utilization_room"),
        ("process_utilization_idle_code", c_int32),
        *_members(words="process_utilization_stale samples_on_boot_clock mig_busy_is_zero cuda_version fault_count"),
        ("driver_version", c_char * 80),
        ("nvml_version", c_char * 80),
        ("faults", Fault * FAULTS),
        ("event_count", c_uint64),
        ("events", Event * EVENTS),
        ("clients", Client * CLIENTS),
        ("tallies", Tally * TALLIES),
        ("cards", Card * CARDS),
    ]


STRUCTS: tuple[type[_Struct], ...] = (
    Counter, Process, Use, Sample, Buffer, Link, Account, Vgpu, VgpuProcess, Instance, Card, Fault, Event, Client,
    Tally, World,
)  # fmt: skip


class StateFile:
    """A world in a file, mapped: of one writing process, whose threads take turns, and any number of reading ones."""

    def __init__(self, path: Path) -> None:
        """Make the file anew, empty; one that was there is left to those who have it mapped."""
        self.path = path
        path.unlink(missing_ok=True)
        with path.open("w+b") as file:
            file.truncate(ctypes.sizeof(World))
            self._mapped = mmap.mmap(file.fileno(), ctypes.sizeof(World))
        self.world = World.from_buffer(self._mapped)
        self._writer = threading.RLock()
        self._depth = 0
        self.world.bytes = ctypes.sizeof(World)
        self.world.magic = MAGIC

    @contextmanager
    def writing(self) -> Iterator[World]:
        """Change the world as one: nobody reads half of it. Not for long, since who reads waits."""
        with self._writer:
            self._depth += 1
            if self._depth == 1:
                self.world.sequence += 1
            try:
                yield self.world
            finally:
                if self._depth == 1:
                    self.world.sequence += 1
                self._depth -= 1
