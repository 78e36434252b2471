/* GPU performance metrics (Hopper and later): ratios of what two samples have counted between them. */
#include <stdlib.h>

#include "driver.h"

typedef struct { u32 id; int code; double value; struct { const char *short_name, *long_name, *unit; } info; } Metric;
typedef struct { u32 version, count; void *first, *second; Metric metrics[]; } MetricsGet;
typedef struct { u32 version, is_supported; } Support;
typedef struct {
    u64 mark, at_us, ratios[GPM_RATIOS], tx_bytes, rx_bytes, link_tx_bytes, link_rx_bytes, sms, megahertz;
    u32 slot, gi_id, has_counters, is_taken;
} GpmSample;

#define SAMPLE_MARK 0x6770736d706c6531ull
#define MIB (1024.0 * 1024.0)
enum { GRAPHICS_ACTIVE = 1, SM_ACTIVE = 2, DRAM_ACTIVE = 10 };

EXPORT int nvmlGpmQueryDeviceSupport(Handle handle, Support *support)
{
    BEGIN(handle, CARD);
    READING support->is_supported = (call.card->abilities & CAN_GPM) != 0;
    END(&support->is_supported, sizeof support->is_supported);
}

EXPORT int nvmlGpmQueryIfStreamingEnabled(Handle handle, u32 *state)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_GPM_STREAMING);
    *state = __atomic_load_n(&call.card->gpm_streaming, __ATOMIC_RELAXED);
    return SUCCESS;
}

EXPORT int nvmlGpmSetStreamingEnabled(Handle handle, u32 state)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_GPM_STREAMING);
    __atomic_store_n(&call.card->gpm_streaming, state != 0, __ATOMIC_RELAXED);
    return SUCCESS;
}

EXPORT int nvmlGpmSampleAlloc(GpmSample **sample)
{
    BEGIN(NULL, NOTHING);
    *sample = calloc(1, sizeof **sample);
    if (!*sample) return OUT_OF_MEMORY;
    (*sample)->mark = SAMPLE_MARK;
    count_open(A_GPM_SAMPLE, 1);
    return SUCCESS;
}

/* As nvmlShutdown it works of a driver that is gone. */
EXPORT int nvmlGpmSampleFree(GpmSample *sample)
{
    static Site site = {__func__, 0, 0};
    if (!world || !sample || sample->mark != SAMPLE_MARK) return INVALID_ARGUMENT;
    count_call(&site);
    sample->mark = 0;
    free(sample);
    count_open(A_GPM_SAMPLE, -1);
    return SUCCESS;
}

static void take(GpmSample *sample, const Card *card, const Instance *instance, u64 at_us)
{
    const Counter *own = instance ? instance->gpm : card->gpm;
    const u32 gi_id = instance ? instance->gi_id : NONE;
    for (u32 id = 1; id < GPM_RATIOS; id++) sample->ratios[id] = counter(&own[id], at_us);
    sample->sms = sms_of(card, gi_id, NONE);
    if (card->simulated) {
        const Load load = load_until(card, gi_id, at_us);
        if (load.scale) {
            sample->ratios[GRAPHICS_ACTIVE] += load.busy / load.scale;
            sample->ratios[SM_ACTIVE] += load.sm / load.scale;
            sample->ratios[DRAM_ACTIVE] += load.memory / load.scale;
        }
    }
    sample->at_us = at_us;
    if (instance) {
        sample->tx_bytes = instance->pcie_tx_bytes, sample->rx_bytes = instance->pcie_rx_bytes;
    } else {
        sample->tx_bytes = pcie_bytes(card, card->pcie_tx_bytes, card->pcie_tx_bytes_per_busy_second, at_us);
        sample->rx_bytes = pcie_bytes(card, card->pcie_rx_bytes, card->pcie_rx_bytes_per_busy_second, at_us);
    }
    sample->link_tx_bytes = sample->link_rx_bytes = 0;
    for (u32 link = 0; link < LINKS; link++) {
        sample->link_tx_bytes += card->links[link].data_tx_bytes;
        sample->link_rx_bytes += card->links[link].data_rx_bytes;
    }
    sample->megahertz = card->sm_megahertz;
    sample->has_counters = (card->abilities & CAN_GPM_COUNTERS) != 0;
}

static int sample_of(Call *call, u32 gi_id, GpmSample *sample)
{
    const Instance *instance = NULL;
    int has_compute = 0;
    if (!(call->card->abilities & CAN_GPM)) return NOT_SUPPORTED;
    if (!sample || sample->mark != SAMPLE_MARK) return INVALID_ARGUMENT;
    READING {
        instance = NULL, has_compute = 0;
        for (u32 row = 0; gi_id != NONE && row < INSTANCES; row++) {
            const Instance *candidate = &call->card->instances[row];
            if (!candidate->exists || candidate->gi_id != gi_id) continue;
            if (!instance) instance = candidate;
            has_compute |= candidate->ci_id != NONE;
        }
        if (instance || gi_id == NONE) take(sample, call->card, instance, now_us());
    }
    sample->slot = call->slot, sample->gi_id = gi_id, sample->is_taken = 1;
    if (gi_id == NONE) return SUCCESS;
    if (!instance) return NOT_FOUND;
    return has_compute ? SUCCESS : NO_DATA;
}

EXPORT int nvmlGpmSampleGet(Handle handle, GpmSample *sample)
{
    BEGIN(handle, CARD);
    return sample_of(&call, NONE, sample);
}

EXPORT int nvmlGpmMigSampleGet(Handle handle, u32 gi_id, GpmSample *sample)
{
    BEGIN(handle, CARD);
    ENTRY(gi_id);
    return sample_of(&call, gi_id, sample);
}

/* Cycles since boot: every SM ticks with the SM clock; the ids of what is active are those of the ratios. */
static int cycles(const GpmSample *last, u32 id, double *value)
{
    static const u32 ratio_of[] = {[249 - 248] = SM_ACTIVE, [250 - 248] = 5, [251 - 248] = 8, [252 - 248] = 7,
                                   [253 - 248] = 9, [254 - 248] = 6, [257 - 248] = 4, [258 - 248] = 11,
                                   [259 - 248] = 12, [260 - 248] = 13};
    const double per_us = (double)last->sms * last->megahertz;
    if (!last->has_counters) return NOT_SUPPORTED;
    if (id == 248) *value = per_us * (last->at_us - boot_us());
    else if (id == 255) *value = last->tx_bytes;
    else if (id == 256) *value = last->rx_bytes;
    else *value = per_us * last->ratios[ratio_of[id - 248]] / 1000;
    return SUCCESS;
}

static int metric(const GpmSample *first, const GpmSample *last, u32 id, double *value)
{
    const double elapsed_us = (double)last->at_us - first->at_us;
#define PER_SECOND(member) ((double)(int64_t)(last->member - first->member) / MIB * 1e6 / elapsed_us)
    /* Counters of an instance that was made anew in between go backwards, and so does what is told of it. */
    if (id >= 1 && id < GPM_RATIOS)
        *value = (double)(int64_t)(last->ratios[id] - first->ratios[id]) / elapsed_us / 10;
    else if (id == 20) *value = PER_SECOND(tx_bytes);
    else if (id == 21) *value = PER_SECOND(rx_bytes);
    else if (id == 60) *value = PER_SECOND(link_rx_bytes);
    else if (id == 61) *value = PER_SECOND(link_tx_bytes);
    else if (id >= 248 && id <= 260) return cycles(last, id, value);
    else return NOT_SUPPORTED;
    return SUCCESS;
}

EXPORT int nvmlGpmMetricsGet(MetricsGet *get)
{
    BEGIN(NULL, NOTHING);
    const GpmSample *first = get->first, *last = get->second;
    if (get->version != 1) return ARGUMENT_VERSION_MISMATCH;
    if (!first || !last || first->mark != SAMPLE_MARK || last->mark != SAMPLE_MARK) return INVALID_ARGUMENT;
    if (!first->is_taken || !last->is_taken || first->slot != last->slot || first->gi_id != last->gi_id ||
        last->at_us <= first->at_us) return INVALID_ARGUMENT;
    /* It has no handle, but its samples are of a card, and so are faults. */
    call.slot = last->slot;
    call.card = &world->cards[last->slot];
    const int failed = card_fault_code(&call);
    if (failed != SUCCESS) return failed;
    const Fault *garbage = call.garbage;
    for (u32 i = 0; i < get->count; i++) {
        Metric *told = &get->metrics[i];
        call.garbage = garbage;
        told->code = entry_code(&call, told->id);
        if (told->code == SUCCESS) told->code = metric(first, last, told->id, &told->value);
        if (told->code == SUCCESS && call.garbage) fill(call.garbage, &told->value, sizeof told->value);
    }
    return SUCCESS;
}
