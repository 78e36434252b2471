/* The world of the fake driver, as it lies in one file that is mapped into memory.
 *
 * Tests write it (state.py has the same structs), the library reads it under `sequence` and writes only what is said
 * to be the library's. All numbers are of the machine's own byte order. The lists below make both the structs and the
 * table by which a test compares them with state.py.
 */
#ifndef STATE_H
#define STATE_H

#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef int32_t i32;

#define MAGIC 0x6c6d766e656b6166ull /* "fakenvml" */
#define CARDS 64
#define INSTANCES 32 /* MIG devices of a card; a GPU instance without a compute instance takes one of them too */
#define PROCESSES 512
#define SAMPLES 128
#define SAMPLE_KINDS 10
#define LINKS 18
#define LINK_ERRORS 5
#define LOCATIONS 8
#define PAGES 64
#define ACCOUNTS 128
#define VGPUS 32
#define VGPU_PROCESSES 64
#define FAULTS 64
#define EVENTS 256
#define CLIENTS 32
#define TALLIES 512
#define GPM_RATIOS 14 /* by metric id; the first is unused */
#define NONE 0xFFFFFFFFu

/* A quantity that grows by itself: base + rate * (now - since). */
#define COUNTER_FIELDS(ONE, MANY) ONE(u64, base) ONE(u64, since_us) ONE(u64, rate)

/* A process on a list. Where `period_us` is not 0 it computes for `on_us` of each period, from `offset_us` on, with
 * `sm_permille` of the SMs of its card or compute instance and `memory_permille` of the memory bandwidth. */
#define PROCESS_FIELDS(ONE, MANY)                                                                                      \
    ONE(u64, used_bytes) ONE(u64, protected_bytes) ONE(u64, from_us) ONE(u64, until_us) ONE(u64, period_us)            \
    ONE(u64, offset_us) ONE(u64, on_us) ONE(u32, exists) ONE(u32, list) ONE(u32, pid) ONE(u32, gi_id)                  \
    ONE(u32, ci_id) ONE(u32, sm_permille) ONE(u32, memory_permille) ONE(u32, overlaps)

#define USE_FIELDS(ONE, MANY)                                                                                          \
    ONE(u64, at_us) ONE(u32, pid) ONE(u32, sm) ONE(u32, memory) ONE(u32, encoder) ONE(u32, decoder) ONE(u32, jpeg)     \
    ONE(u32, ofa) ONE(u32, exists)

#define SAMPLE_FIELDS(ONE, MANY) ONE(u64, at_us) ONE(u64, value)
#define BUFFER_FIELDS(ONE, MANY) ONE(u64, count) MANY(Sample, rows, SAMPLES)

#define LINK_FIELDS(ONE, MANY)                                                                                         \
    ONE(u64, data_tx_bytes) ONE(u64, data_rx_bytes) ONE(u64, raw_tx_bytes) ONE(u64, raw_rx_bytes)                      \
    MANY(u64, errors, LINK_ERRORS) ONE(u32, exists) ONE(u32, active) ONE(u32, version) ONE(u32, speed_mbps)            \
    ONE(u32, remote_type) ONE(u32, remote_link) MANY(char, remote_bus_id, 32)

#define ACCOUNT_FIELDS(ONE, MANY)                                                                                      \
    ONE(u64, memory_bytes_max) ONE(u64, time_ms) ONE(u64, started_us) ONE(u32, pid) ONE(u32, gpu_percent)              \
    ONE(u32, memory_percent) ONE(u32, is_running)

#define VGPU_FIELDS(ONE, MANY)                                                                                         \
    ONE(u64, at_us) ONE(u64, used_bytes) ONE(u32, id) ONE(u32, type_id) ONE(u32, sm) ONE(u32, memory)                  \
    ONE(u32, encoder) ONE(u32, decoder) ONE(u32, jpeg) ONE(u32, ofa) MANY(char, vm_id, 96) MANY(char, uuid, 96)

#define VGPU_PROCESS_FIELDS(ONE, MANY)                                                                                 \
    ONE(u64, at_us) ONE(u32, vgpu_id) ONE(u32, pid) ONE(u32, sm) ONE(u32, memory) ONE(u32, encoder) ONE(u32, decoder)  \
    ONE(u32, jpeg) ONE(u32, ofa) MANY(char, name, 64)

#define INSTANCE_FIELDS(ONE, MANY)                                                                                     \
    ONE(u64, total) ONE(u64, reserved) ONE(u64, used) ONE(u64, memory_mib) ONE(u64, pcie_tx_bytes)                     \
    ONE(u64, pcie_rx_bytes) MANY(Counter, gpm, GPM_RATIOS)                                                             \
    ONE(u32, exists) ONE(u32, generation) ONE(u32, gi_id) ONE(u32, ci_id) ONE(u32, gi_profile) ONE(u32, start)         \
    ONE(u32, size) ONE(u32, gi_slices) ONE(u32, ci_slices) ONE(u32, sms) MANY(char, uuid, 96) MANY(char, name, 96)

/* Where `simulated`, what the processes do adds to memory, utilisation, power, energy, bytes, samples and GPM. */
#define CARD_FIELDS(ONE, MANY)                                                                                         \
    ONE(u64, abilities) ONE(u64, total) ONE(u64, reserved) ONE(u64, used) ONE(u64, millijoules)                        \
    ONE(u64, energy_step_us) ONE(u64, sample_period_us) ONE(u64, simulated_from_us) ONE(u64, clock_event_reasons)      \
    ONE(u64, pcie_tx_bytes) ONE(u64, pcie_rx_bytes) ONE(u64, pcie_tx_bytes_per_busy_second)                            \
    ONE(u64, pcie_rx_bytes_per_busy_second) ONE(u64, supported_events) ONE(u64, accounting_mode)                       \
    MANY(u64, perf_policy_ns, 8) MANY(u64, clock_event_ns, 3) MANY(u64, ecc_corrected, 2)                              \
    MANY(u64, ecc_uncorrected, 2) MANY(u64, ecc_corrected_at, LOCATIONS) MANY(u64, ecc_uncorrected_at, LOCATIONS)      \
    MANY(Counter, gpm, GPM_RATIOS) ONE(u32, exists) ONE(u32, lost_code) ONE(u32, minor) ONE(i32, numa_node)            \
    ONE(u32, architecture) ONE(u32, compute_major) ONE(u32, compute_minor) ONE(u32, persistence_mode)                  \
    ONE(u32, virtualization_mode) ONE(u32, pci_domain) ONE(u32, pci_bus) ONE(u32, pci_device) ONE(u32, pci_device_id)  \
    ONE(u32, pci_subsystem_id) ONE(u32, simulated) ONE(u32, sms) ONE(u32, busy_percent) ONE(u32, memory_percent)       \
    ONE(u32, encoder_percent) ONE(u32, decoder_percent) ONE(u32, jpeg_percent) ONE(u32, ofa_percent)                   \
    ONE(u32, milliwatts) ONE(u32, milliwatts_instant) ONE(u32, idle_milliwatts) ONE(u32, dynamic_milliwatts)           \
    ONE(u32, limit_milliwatts) ONE(u32, celsius) ONE(u32, memory_celsius) ONE(u32, sm_megahertz)                       \
    ONE(u32, memory_megahertz) ONE(u32, video_megahertz) ONE(u32, performance_state) ONE(u32, pcie_tx_kib_per_s)       \
    ONE(u32, pcie_rx_kib_per_s) ONE(u32, pcie_replays) ONE(u32, ecc_mode) ONE(u32, remapped_correctable)               \
    ONE(u32, remapped_uncorrectable) ONE(u32, remapping_pending) ONE(u32, remapping_failed)                            \
    ONE(u32, retirement_pending) ONE(u32, recovery_action) ONE(u32, gpm_streaming) ONE(u32, mig_mode)                  \
    ONE(u32, mig_mode_pending) ONE(u32, full_card_profile) ONE(u32, full_card_sms)                                     \
    ONE(u32, link_count) MANY(u32, retired_pages, 2) MANY(char, uuid, 96) MANY(char, name, 96)                         \
    MANY(char, serial, 32) MANY(char, vbios, 32) MANY(char, bus_id, 32) MANY(u32, topology, CARDS)                     \
    MANY(u32, p2p, CARDS) MANY(Link, links, LINKS) MANY(Instance, instances, INSTANCES) ONE(u64, process_count)        \
    MANY(Process, processes, PROCESSES) ONE(u64, use_count) MANY(Use, uses, PROCESSES)                                 \
    MANY(Buffer, samples, SAMPLE_KINDS) ONE(u64, account_count) MANY(Account, accounts, ACCOUNTS)                      \
    ONE(u64, vgpu_count) MANY(Vgpu, vgpus, VGPUS) ONE(u64, vgpu_process_count)                                         \
    MANY(VgpuProcess, vgpu_processes, VGPU_PROCESSES)

/* What goes wrong. `slot` NONE is every card and no card; `row` NONE is the card itself and not its MIG devices, which
 * go with it where `call` is empty. `entry` NONE is the whole call, else one field, metric, sensor or sample kind.
 * The last line is the library's: calls that matched, those that were hit, threads that hang. */
#define FAULT_FIELDS(ONE, MANY)                                                                                        \
    ONE(u64, garbage) ONE(u64, seed) MANY(char, call, 64) ONE(u32, exists) ONE(u32, slot) ONE(u32, row)                \
    ONE(u32, entry) ONE(i32, code) ONE(u32, has_garbage) ONE(u32, hangs) ONE(u32, delay_us) ONE(u32, after)            \
    ONE(u32, times) ONE(u32, per_million) ONE(u32, tag)                                                                \
    ONE(u64, calls) ONE(u64, hits) ONE(u64, waiting)

#define EVENT_FIELDS(ONE, MANY)                                                                                        \
    ONE(u64, type) ONE(u64, data) ONE(u64, at_us) ONE(u32, slot) ONE(u32, gi_id) ONE(u32, ci_id) ONE(u32, is_system)

/* What a process has open; all of it is the library's. */
#define CLIENT_FIELDS(ONE, MANY)                                                                                       \
    ONE(u32, pid) ONE(u32, inits) ONE(u32, event_sets) ONE(u32, system_event_sets) ONE(u32, gpm_samples)               \
    ONE(u32, inits_ever)

#define TALLY_FIELDS(ONE, MANY) ONE(u64, calls) MANY(char, call, 64)

/* `now_us` 0 is the machine's clock moved by `shift_us`; `boot_us` 0 is its own time of boot. */
#define WORLD_FIELDS(ONE, MANY)                                                                                        \
    ONE(u64, magic) ONE(u64, bytes) ONE(u64, sequence) ONE(u64, generation) ONE(u64, load) ONE(i32, driver_code)       \
    ONE(u32, wake) ONE(u64, now_us) ONE(u64, shift_us) ONE(u64, boot_us) ONE(u32, process_entry_bytes)                 \
    ONE(u32, process_utilization_room) ONE(i32, process_utilization_idle_code) ONE(u32, process_utilization_stale)     \
    ONE(u32, samples_on_boot_clock) ONE(u32, mig_busy_is_zero) ONE(u32, cuda_version) ONE(u32, fault_count)            \
    MANY(char, driver_version, 80) MANY(char, nvml_version, 80) MANY(Fault, faults, FAULTS) ONE(u64, event_count)      \
    MANY(Event, events, EVENTS) MANY(Client, clients, CLIENTS) MANY(Tally, tallies, TALLIES) MANY(Card, cards, CARDS)

#define ONE_MEMBER(type, name) type name;
#define MANY_MEMBERS(type, name, length) type name[length];
#define STRUCT(Name, FIELDS) typedef struct { FIELDS(ONE_MEMBER, MANY_MEMBERS) } Name;

#define STRUCTS(EACH)                                                                                                  \
    EACH(Counter, COUNTER_FIELDS) EACH(Process, PROCESS_FIELDS) EACH(Use, USE_FIELDS) EACH(Sample, SAMPLE_FIELDS)      \
    EACH(Buffer, BUFFER_FIELDS) EACH(Link, LINK_FIELDS) EACH(Account, ACCOUNT_FIELDS) EACH(Vgpu, VGPU_FIELDS)          \
    EACH(VgpuProcess, VGPU_PROCESS_FIELDS) EACH(Instance, INSTANCE_FIELDS) EACH(Card, CARD_FIELDS)                     \
    EACH(Fault, FAULT_FIELDS) EACH(Event, EVENT_FIELDS) EACH(Client, CLIENT_FIELDS) EACH(Tally, TALLY_FIELDS)          \
    EACH(World, WORLD_FIELDS)

STRUCTS(STRUCT)

#endif
