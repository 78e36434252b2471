/* The lists of running processes: who holds memory, on which instance. */
#include "driver.h"

typedef struct { u32 pid; u64 used_bytes; u32 gi_id, ci_id; } ProcessInfo;
/* What fills up the PID is named, since who reads an entry of the wrong size reads it too. */
typedef struct { u32 pid, filler; u64 used_bytes; u32 gi_id, ci_id; u64 protected_bytes; } ProcessDetail;
typedef struct { u32 version, mode, count; ProcessDetail *rows; } ProcessDetailList;

#define DETAIL_LIST_VERSION 0x01000018
#define ALL_LISTS 3

/* The rows of one list, of a card with its instances or of one MIG device; never more than `rows` has room for. */
static u32 running(const Call *call, u32 list, ProcessDetail *rows)
{
    const Card *card = call->card;
    const u64 at_us = now_us();
    u32 count = 0;
    for (u64 i = 0; i < card->process_count && i < PROCESSES; i++) {
        const Process *process = &card->processes[i];
        if (!is_alive(process, at_us) || (list != ALL_LISTS && process->list != list)) continue;
        if (call->kind == MIG_DEVICE &&
            (process->gi_id != call->instance->gi_id || process->ci_id != call->instance->ci_id)) continue;
        rows[count++] = (ProcessDetail){process->pid, 0, process->used_bytes, process->gi_id, process->ci_id,
                                        process->protected_bytes};
    }
    return count;
}

/* In entries of 24 bytes, or of 32 as some drivers of 535 had them under the same name. */
static int tell(const Call *call, u32 list, u32 entry_bytes, u32 *count, void *out)
{
    ProcessDetail rows[PROCESSES];
    u32 there = 0;
    READING there = running(call, list, rows);
    const size_t room = (size_t)*count * sizeof(ProcessInfo);
    const u32 asked = *count;
    *count = there;
    if (!there) return SUCCESS;
    if (!out || asked < there) return INSUFFICIENT_SIZE;
    for (u32 i = 0; i < there && (i + 1) * entry_bytes <= room; i++) {
        char *entry = (char *)out + i * entry_bytes;
        memcpy(entry, &rows[i], entry_bytes);
        if (call->garbage) fill(call->garbage, entry + offsetof(ProcessInfo, used_bytes), sizeof(u64));
    }
    return SUCCESS;
}

#define LISTS(visibility, version, entry_bytes)                                                                        \
    LIST(visibility, nvmlDeviceGetComputeRunningProcesses_##version, COMPUTE, entry_bytes)                             \
    LIST(visibility, nvmlDeviceGetGraphicsRunningProcesses_##version, GRAPHICS, entry_bytes)                           \
    LIST(visibility, nvmlDeviceGetMPSComputeRunningProcesses_##version, MPS, entry_bytes)
#define LIST(visibility, name, list, entry_bytes)                                                                      \
    visibility int name(Handle handle, u32 *count, void *infos)                                                        \
    {                                                                                                                  \
        BEGIN(handle, CARD | MIG_DEVICE);                                                                              \
        return tell(&call, list, entry_bytes, count, infos);                                                           \
    }
LISTS(SINCE_510, v3, world->process_entry_bytes == sizeof(ProcessDetail) ? sizeof(ProcessDetail) : sizeof(ProcessInfo))
LISTS(EXPORT, v2, sizeof(ProcessInfo))

EXPORT int nvmlDeviceGetRunningProcessDetailList(Handle handle, ProcessDetailList *told)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    if (told->version != DETAIL_LIST_VERSION) return ARGUMENT_VERSION_MISMATCH;
    if (told->mode > ALL_LISTS) return INVALID_ARGUMENT;
    ProcessDetail rows[PROCESSES];
    u32 there = 0;
    READING there = running(&call, told->mode, rows);
    const u32 room = told->count;
    told->count = there;
    if (!there) return SUCCESS;
    if (!told->rows || room < there) return INSUFFICIENT_SIZE;
    memcpy(told->rows, rows, there * sizeof *rows);
    return SUCCESS;
}
