/* What simulated processes do: pure functions of time in whole microseconds, the same as in truth.py. */
#include "driver.h"

u64 counter(const Counter *counter, u64 at_us)
{
    return counter->base + (at_us > counter->since_us ? (at_us - counter->since_us) * counter->rate : 0);
}

int is_alive(const Process *process, u64 at_us)
{
    return process->exists && process->from_us <= at_us && (!process->until_us || at_us < process->until_us);
}

/* The microseconds that its kernels ran until an instant. */
u64 on_us(const Process *process, u64 at_us)
{
    if (!process->exists || !process->period_us || at_us <= process->from_us) return 0;
    const u64 until = process->until_us && process->until_us < at_us ? process->until_us : at_us;
    if (until <= process->from_us) return 0;
    const u64 elapsed = until - process->from_us, rest = elapsed % process->period_us;
    const u64 begun = rest > process->offset_us ? rest - process->offset_us : 0;
    return elapsed / process->period_us * process->on_us + (begun < process->on_us ? begun : process->on_us);
}

/* The SMs of a card; of a GPU instance, what its compute instances have together; of one of these, its own. */
u64 sms_of(const Card *card, u32 gi_id, u32 ci_id)
{
    u64 sms = 0;
    if (gi_id == NONE) return card->sms;
    for (u32 row = 0; row < INSTANCES; row++) {
        const Instance *instance = &card->instances[row];
        if (instance->exists && instance->gi_id == gi_id && (ci_id == NONE || instance->ci_id == ci_id))
            sms += instance->sms;
    }
    return sms;
}

static u64 process_count(const Card *card)
{
    return card->process_count < PROCESSES ? card->process_count : PROCESSES;
}

/* Of a card where `gi_id` is NONE, with what is done in each compute instance by its SMs. Permille x SMs x microseconds;
 * a full one has 1000 x `scale` a microsecond. A kernel that overlaps another's is not counted as busy twice. */
Load load_until(const Card *card, u32 gi_id, u64 at_us)
{
    Load load = {0};
    load.scale = sms_of(card, gi_id, NONE);
    for (u64 i = 0; i < process_count(card); i++) {
        const Process *process = &card->processes[i];
        if (gi_id != NONE && process->gi_id != gi_id) continue;
        if (is_alive(process, at_us)) load.used_bytes += process->used_bytes;
        const u64 weighted_us = on_us(process, at_us) * sms_of(card, process->gi_id, process->ci_id);
        load.sm += weighted_us * process->sm_permille;
        load.memory += weighted_us * process->memory_permille;
        if (!process->overlaps) load.busy += weighted_us * 1000;
    }
    return load;
}

u64 sm_now(const Card *card, u64 at_us)
{
    return load_until(card, NONE, at_us + 1).sm - load_until(card, NONE, at_us).sm;
}

/* Half-up: what was done in `over_us`, of `scale` in each of them. */
u64 ratio(u64 part, u64 scale, u64 over_us)
{
    const u64 whole = scale * over_us;
    return whole ? (part + whole / 2) / whole : 0;
}

u64 energy_nanojoules(const Card *card, u64 at_us)
{
    const u64 base = card->millijoules * 1000000;
    if (!card->simulated || at_us <= card->simulated_from_us) return base;
    const u64 stepped = card->energy_step_us ? at_us - at_us % card->energy_step_us : at_us;
    if (stepped <= card->simulated_from_us) return base;
    const u64 idle = (stepped - card->simulated_from_us) * card->idle_milliwatts;
    const Load load = load_until(card, NONE, stepped);
    const unsigned __int128 dynamic = (unsigned __int128)load.sm * card->dynamic_milliwatts;
    return base + idle + (card->sms ? (u64)(dynamic / (1000ull * card->sms)) : 0);
}

/* Rates are told of periods that have ended. */
u64 last_period_end(const Card *card, u64 at_us)
{
    return card->sample_period_us ? at_us - at_us % card->sample_period_us : at_us;
}

static u32 percent_of_last_period(const Card *card, u64 at_us, u64 (*part)(const Load *))
{
    const u64 end = last_period_end(card, at_us), start = end - card->sample_period_us;
    const Load before = load_until(card, NONE, start), after = load_until(card, NONE, end);
    return ratio(part(&after) - part(&before), after.scale * 10, card->sample_period_us);
}

static u64 busy_part(const Load *load) { return load->busy; }
static u64 memory_part(const Load *load) { return load->memory; }

u32 busy_percent(const Card *card, u64 at_us)
{
    return card->simulated ? percent_of_last_period(card, at_us, busy_part) : card->busy_percent;
}

u32 memory_percent(const Card *card, u64 at_us)
{
    return card->simulated ? percent_of_last_period(card, at_us, memory_part) : card->memory_percent;
}

u64 used_bytes(const Card *card, const Instance *instance, u64 at_us)
{
    const u64 base = instance ? instance->used : card->used;
    if (!card->simulated) return base;
    return base + load_until(card, instance ? instance->gi_id : NONE, at_us).used_bytes;
}

/* Over the second before, as since Ampere. */
u32 average_milliwatts(const Card *card, u64 at_us)
{
    if (!card->simulated) return card->milliwatts;
    const u64 since = at_us - 1000000 > card->simulated_from_us ? at_us - 1000000 : card->simulated_from_us;
    if (at_us <= since) return card->idle_milliwatts;
    return (energy_nanojoules(card, at_us) - energy_nanojoules(card, since)) / (at_us - since);
}

u64 pcie_bytes(const Card *card, u64 base, u64 per_busy_second, u64 at_us)
{
    if (!card->simulated || !card->sms) return base;
    const Load load = load_until(card, NONE, at_us);
    return base + (u64)((unsigned __int128)load.busy * per_busy_second / (1000ull * card->sms * 1000000));
}

/* What the energy counter of a card says now, whatever is done to the calls. */
EXPORT u64 fake_millijoules(u32 slot)
{
    const Card *card = &world->cards[slot];
    return card->simulated ? energy_nanojoules(card, now_us()) / 1000000 : card->millijoules;
}
