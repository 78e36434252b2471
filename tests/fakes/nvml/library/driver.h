/* What the files of the library share: how a call begins, reads and ends. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <string.h>

#include "state.h"

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(name, of, ...) EXPORT int name(__VA_ARGS__) __attribute__((alias(#of)))
/* Before driver 510 these calls did not exist. */
#ifdef OLD_DRIVER
#define SINCE_510
#else
#define SINCE_510 EXPORT
#endif

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18, OUT_OF_MEMORY = 20, NO_DATA = 21,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};
enum { CAN_UTILIZATION = 1, CAN_PROCESS_UTILIZATION = 1 << 1, CAN_SAMPLES = 1 << 2, CAN_POWER = 1 << 3,
    CAN_POWER_FIELDS = 1 << 4, CAN_ENERGY = 1 << 5, CAN_MEMORY = 1 << 6, CAN_MEMORY_TEMPERATURE = 1 << 7,
    CAN_CLOCK_EVENTS = 1 << 8, CAN_CLOCK_EVENT_COUNTERS = 1 << 9, CAN_PERF_POLICY = 1 << 10,
    CAN_PCIE_COUNTERS = 1 << 11, CAN_PCIE_THROUGHPUT = 1 << 12, CAN_ECC = 1 << 13, CAN_ROW_REMAP = 1 << 14,
    CAN_RETIRED_PAGES = 1 << 15, CAN_RECOVERY_ACTION = 1 << 16, CAN_NVLINK = 1 << 17, CAN_NVLINK_BYTES = 1 << 18,
    CAN_GPM = 1 << 19, CAN_GPM_COUNTERS = 1 << 20, CAN_GPM_STREAMING = 1 << 21, CAN_MIG = 1 << 22,
    CAN_ACCOUNTING = 1 << 23, CAN_NUMA = 1 << 24, CAN_VGPU = 1 << 25, CAN_JPEG_OFA = 1 << 26, CAN_EVENTS = 1 << 27,
    CAN_SERIAL = 1 << 28 };
enum { COMPUTE, GRAPHICS, MPS, PROCESS_LISTS };
enum { VALUE_DOUBLE, VALUE_UNSIGNED_INT, VALUE_UNSIGNED_LONG, VALUE_UNSIGNED_LONG_LONG };

/* A card, MIG device, GPU instance or compute instance. It is never followed as a pointer, so that one that has
 * become invalid is recognised. */
typedef void *Handle;
/* What a call may be about; also the kinds of handles. */
enum { NOTHING = 0, CARD = 1, MIG_DEVICE = 2, GPU_INSTANCE = 4, COMPUTE_INSTANCE = 8 };

/* Where a call is written, and the row that counts it. */
typedef struct { const char *name; u32 mapping, row; } Site;
/* What a call found: its card, and the row of its instance where there is one. */
typedef struct {
    const char *name;
    Card *card;
    Instance *instance;
    u32 slot, row, kind, met_general_faults;
    const Fault *garbage;
} Call;

typedef union { double real; u32 word; u64 whole; } Value;
typedef struct { char legacy[16]; u32 domain, bus, device, pci_id, subsystem_id; char bus_id[32]; } PciInfo;

extern World *world;

/* Every call but the string functions begins so. It returns where the driver, the handle or a fault says so. */
#define BEGIN(handle, kinds)                                                                                           \
    static Site site = {__func__, 0, 0};                                                                               \
    Call call;                                                                                                         \
    const int begun = begin(&site, (handle), (kinds), &call);                                                          \
    if (begun != SUCCESS) return begun
#define NEEDS(ability)                                                                                                 \
    if (!(call.card->abilities & (ability))) return NOT_SUPPORTED
#define NOT_IN_MIG_MODE                                                                                                \
    if (call.card->mig_mode) return NOT_SUPPORTED
/* A fault of one sensor, metric or kind. */
#define ENTRY(entry)                                                                                                   \
    do {                                                                                                               \
        const int failed = entry_code(&call, (entry));                                                                 \
        if (failed != SUCCESS) return failed;                                                                          \
    } while (0)
/* The block runs again until nobody wrote meanwhile: no `return` or `break` out of it. */
#define READING for (u64 look = look_begin(); look; look = look_again(look))
/* Every call that succeeds ends so: a fault of garbage overwrites what it says. */
#define END(out, bytes) return end(&call, (out), (bytes))
#define EXPORT_VALUE(name, type, ability, field)                                                                       \
    EXPORT int name(Handle handle, type *value)                                                                        \
    {                                                                                                                  \
        BEGIN(handle, CARD);                                                                                           \
        if (ability) NEEDS(ability);                                                                                   \
        READING *value = call.card->field;                                                                             \
        END(value, sizeof *value);                                                                                     \
    }

/* library.c */
int begin(Site *site, Handle handle, u32 kinds, Call *call);
int end(const Call *call, void *out, size_t bytes);
u64 look_begin(void);
u64 look_again(u64 look);
int driver_code(void);
u64 mapping_number(void);
void rest_us(u64 us);
int text(const Call *call, const char *from, size_t room, char *to, u32 length);
/* handles.c */
Handle card_handle(u32 slot);
Handle instance_handle(u32 slot, u32 row, u32 kind);
int resolve(Handle handle, Call *call);
u32 slot_of_index(u32 index);
u32 index_of_slot(u32 slot);
void forget_handles(void);
/* faults.c */
int fault_code(Call *call, u32 entry);
int card_fault_code(Call *call);
int entry_code(Call *call, u32 entry);
void fill(const Fault *fault, void *out, size_t bytes);
/* clients.c */
typedef enum { AN_INIT, AN_EVENT_SET, A_SYSTEM_EVENT_SET, A_GPM_SAMPLE } Opened;
void count_open(Opened what, int by);
void count_call(Site *site);
/* events.c */
void forget_event_sets(void);
/* time.c */
u64 now_us(void);
u64 boot_us(void);
/* load.c: what the processes of a card, or of one GPU instance, have done until an instant */
typedef struct { u64 busy, sm, memory, used_bytes, scale; } Load;
Load load_until(const Card *card, u32 gi_id, u64 at_us);
u64 sms_of(const Card *card, u32 gi_id, u32 ci_id);
u64 sm_now(const Card *card, u64 at_us);
int is_alive(const Process *process, u64 at_us);
u64 on_us(const Process *process, u64 at_us);
u64 energy_nanojoules(const Card *card, u64 at_us);
u64 ratio(u64 part, u64 scale, u64 over_us);
u64 last_period_end(const Card *card, u64 at_us);
u64 counter(const Counter *counter, u64 at_us);
u64 used_bytes(const Card *card, const Instance *instance, u64 at_us);
u32 busy_percent(const Card *card, u64 at_us);
u32 memory_percent(const Card *card, u64 at_us);
u32 average_milliwatts(const Card *card, u64 at_us);
u64 pcie_bytes(const Card *card, u64 base, u64 per_busy_second, u64 at_us);

#endif
