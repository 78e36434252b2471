/* What each process did with the SMs lately, and what it did in all where accounting is on. */
#include "driver.h"

typedef struct { u32 pid; u64 at_us; u32 sm, memory, encoder, decoder; } ProcessSample;
typedef struct { u64 at_us; u32 pid, sm, memory, encoder, decoder, jpeg, ofa; } ProcessSampleV2;
typedef struct { u32 version, count; u64 since_us; ProcessSampleV2 *rows; } ProcessSamplesV2;
typedef struct { u32 gpu, memory; u64 memory_bytes_max, time_ms, started_us; u32 is_running, reserved[5]; } Stats;
typedef struct {
    u32 pid, is_running, gpu, memory;
    u64 memory_bytes_max;
    u32 sample_count;
    u64 gpu_sum, memory_sum, time_ms, started_us;
} StatsV2;

#define SAMPLES_V2_VERSION 0x01000018
/* How far back the driver's own buffer reaches. */
#define BUFFER_PERIODS 16

/* The mean of the periods since `since_us`, for those that did anything in them. */
static u32 simulated(const Card *card, u64 since_us, ProcessSampleV2 *rows)
{
    const u64 end_us = last_period_end(card, now_us()), oldest_us = end_us - BUFFER_PERIODS * card->sample_period_us;
    u64 start_us = last_period_end(card, since_us);
    if (start_us < oldest_us) start_us = oldest_us;
    if (start_us < card->simulated_from_us) start_us = card->simulated_from_us;
    u32 count = 0;
    if (start_us >= end_us) return 0;
    for (u64 i = 0; i < card->process_count && i < PROCESSES; i++) {
        const Process *process = &card->processes[i];
        const u64 on = on_us(process, end_us) - on_us(process, start_us), over_us = end_us - start_us;
        if (!on) continue;
        rows[count++] = (ProcessSampleV2){.at_us = end_us, .pid = process->pid,
                                          .sm = ratio(on * 100, 1, over_us),
                                          .memory = ratio(on * process->memory_permille, 10, over_us)};
    }
    return count;
}

static u32 kept(const Card *card, u64 since_us, ProcessSampleV2 *rows)
{
    u32 count = 0;
    for (u64 i = 0; i < card->use_count && i < PROCESSES; i++) {
        const Use *use = &card->uses[i];
        /* Some drivers answer with what they said before, however old. */
        if (!use->exists || (use->at_us <= since_us && !world->process_utilization_stale)) continue;
        rows[count++] = (ProcessSampleV2){use->at_us, use->pid, use->sm, use->memory, use->encoder, use->decoder,
                                          use->jpeg, use->ofa};
    }
    return count;
}

/* The rows newer than `since_us`; SUCCESS only where the caller has room for them. */
static int used(const Call *call, u64 since_us, u32 *count, const void *room, ProcessSampleV2 *rows)
{
    u32 there = 0;
    READING there = call->card->simulated ? simulated(call->card, since_us, rows) : kept(call->card, since_us, rows);
    const u32 asked = *count;
    /* Some drivers ask for room for 100 whatever there is. */
    const int asks_blindly = !room && world->process_utilization_room;
    *count = asks_blindly ? world->process_utilization_room : there;
    if (asks_blindly) return INSUFFICIENT_SIZE;
    if (!there) return world->process_utilization_idle_code;
    return room && asked >= there ? SUCCESS : INSUFFICIENT_SIZE;
}

EXPORT int nvmlDeviceGetProcessUtilization(Handle handle, ProcessSample *told, u32 *count, u64 since_us)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_PROCESS_UTILIZATION);
    NOT_IN_MIG_MODE;
    ProcessSampleV2 rows[PROCESSES];
    const int code = used(&call, since_us, count, told, rows);
    if (code != SUCCESS || !told) return code;
    for (u32 i = 0; i < *count; i++) {
        told[i] = (ProcessSample){rows[i].pid, rows[i].at_us, rows[i].sm, rows[i].memory, rows[i].encoder,
                                  rows[i].decoder};
        if (call.garbage) fill(call.garbage, &told[i].sm, 4 * sizeof(u32));
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetProcessesUtilizationInfo(Handle handle, ProcessSamplesV2 *told)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_PROCESS_UTILIZATION);
    NOT_IN_MIG_MODE;
    if (told->version != SAMPLES_V2_VERSION) return ARGUMENT_VERSION_MISMATCH;
    ProcessSampleV2 rows[PROCESSES];
    const int code = used(&call, told->since_us, &told->count, told->rows, rows);
    if (code == SUCCESS && told->rows) memcpy(told->rows, rows, told->count * sizeof *rows);
    return code;
}

EXPORT_VALUE(nvmlDeviceGetAccountingMode, u32, CAN_ACCOUNTING, accounting_mode)

EXPORT int nvmlDeviceGetAccountingBufferSize(Handle handle, u32 *count)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ACCOUNTING);
    *count = ACCOUNTS;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetAccountingPids(Handle handle, u32 *count, u32 *pids)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ACCOUNTING);
    NOT_IN_MIG_MODE;
    u32 found[ACCOUNTS], there = 0;
    READING {
        there = call.card->account_count < ACCOUNTS ? call.card->account_count : ACCOUNTS;
        for (u32 i = 0; i < there; i++) found[i] = call.card->accounts[i].pid;
    }
    const u32 room = *count;
    *count = there;
    if (room < there) return INSUFFICIENT_SIZE;
    if (pids) memcpy(pids, found, there * sizeof *pids);
    return SUCCESS;
}

static int account_of(const Call *call, u32 pid, Account *found)
{
    int code = NOT_FOUND;
    if (!call->card->accounting_mode) return NOT_FOUND;
    READING {
        code = NOT_FOUND;
        for (u64 i = 0; i < call->card->account_count && i < ACCOUNTS; i++)
            if (call->card->accounts[i].pid == pid) *found = call->card->accounts[i], code = SUCCESS;
    }
    return code;
}

EXPORT int nvmlDeviceGetAccountingStats(Handle handle, u32 pid, Stats *stats)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ACCOUNTING);
    NOT_IN_MIG_MODE;
    Account found;
    const int code = account_of(&call, pid, &found);
    if (code == SUCCESS)
        *stats = (Stats){found.gpu_percent, found.memory_percent, found.memory_bytes_max, found.time_ms,
                         found.started_us, found.is_running, {0}};
    return code;
}

EXPORT int nvmlDeviceGetAccountingStats_v2(Handle handle, StatsV2 *stats)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ACCOUNTING);
    NOT_IN_MIG_MODE;
    Account found;
    const int code = account_of(&call, stats->pid, &found);
    if (code == SUCCESS)
        *stats = (StatsV2){found.pid, found.is_running, found.gpu_percent, found.memory_percent,
                           found.memory_bytes_max, 0, 0, 0, found.time_ms, found.started_us};
    return code;
}
