/* `nvmlDeviceGetSamples`: the driver's own finer samples, newest last. */
#include "driver.h"

typedef struct { u64 at_us; Value value; } SampleValue;
enum { TOTAL_POWER, GPU_UTILIZATION, MEMORY_UTILIZATION };

/* What has been counted of a kind until the end of a period. */
static u64 total_until(const Card *card, u32 kind, u64 end_us)
{
    if (kind == TOTAL_POWER) return energy_nanojoules(card, end_us);
    const Load load = load_until(card, NONE, end_us);
    return kind == GPU_UTILIZATION ? load.busy : load.memory;
}

static u64 value_of(const Card *card, u32 kind, u64 counted)
{
    if (kind == TOTAL_POWER) return counted / card->sample_period_us;
    return ratio(counted, card->sms * 10ull, card->sample_period_us);
}

static u32 simulated(const Card *card, u32 kind, u64 since_us, Sample *rows)
{
    const u64 period_us = card->sample_period_us, last_us = last_period_end(card, now_us());
    if (!period_us || kind > MEMORY_UTILIZATION) return 0;
    u64 start_us = (card->simulated_from_us + period_us - 1) / period_us * period_us;
    if (start_us + SAMPLES * period_us < last_us) start_us = last_us - SAMPLES * period_us;
    /* The buffer of a card that was idle all the time is empty. */
    if (start_us >= last_us || total_until(card, kind, start_us) == total_until(card, kind, last_us)) return 0;
    if (since_us > start_us) start_us = last_period_end(card, since_us);
    u32 count = 0;
    u64 before = total_until(card, kind, start_us);
    for (u64 end_us = start_us + period_us; end_us <= last_us; end_us += period_us) {
        const u64 after = total_until(card, kind, end_us);
        rows[count++] = (Sample){end_us, value_of(card, kind, after - before)};
        before = after;
    }
    return count;
}

static u32 kept(const Buffer *buffer, u64 since_us, Sample *rows)
{
    u32 count = 0;
    for (u64 i = 0; i < buffer->count && i < SAMPLES; i++)
        if (buffer->rows[i].at_us > since_us) rows[count++] = buffer->rows[i];
    return count;
}

/* Stamps, and the stamp it is asked since, are of the clock since boot on some drivers. */
EXPORT int nvmlDeviceGetSamples(Handle handle, u32 kind, u64 since_us, u32 *type, u32 *count, SampleValue *samples)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_SAMPLES);
    NOT_IN_MIG_MODE;
    ENTRY(kind);
    if (kind >= SAMPLE_KINDS) return INVALID_ARGUMENT;
    Sample rows[SAMPLES];
    u32 there = 0;
    const u64 shift_us = world->samples_on_boot_clock ? boot_us() : 0;
    if (since_us) since_us += shift_us;
    READING there = call.card->simulated ? simulated(call.card, kind, since_us, rows)
                                         : kept(&call.card->samples[kind], since_us, rows);
    *type = VALUE_UNSIGNED_INT;
    if (!there) return NOT_FOUND;
    if (!samples) { *count = SAMPLES; return SUCCESS; }
    if (*count < there) return INSUFFICIENT_SIZE;
    *count = there;
    for (u32 i = 0; i < there; i++) {
        samples[i].at_us = rows[i].at_us - shift_us;
        samples[i].value.whole = rows[i].value;
        if (call.garbage) fill(call.garbage, &samples[i].value, sizeof samples[i].value);
    }
    return SUCCESS;
}
