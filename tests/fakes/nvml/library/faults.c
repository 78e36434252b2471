/* What goes wrong: a code, a delay, a call that hangs, garbage instead of an answer. */
#include "driver.h"

#define HANG_STEP_US 2000
#define DELAY_STEP_US 10000

static int is_about(const Fault *fault, const Call *call, u32 entry)
{
    if (!fault->exists || fault->entry != entry) return 0;
    if (fault->call[0] && strncmp(fault->call, call->name, sizeof fault->call)) return 0;
    if (fault->slot == NONE) return !call->met_general_faults;
    if (fault->slot != call->slot) return 0;
    return fault->row == call->row || (!fault->call[0] && fault->row == NONE);
}

/* The same number for the same seed and the same call of many, whatever thread makes it. */
static u64 scattered(u64 number)
{
    number += 0x9E3779B97F4A7C15ull;
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9ull;
    number = (number ^ number >> 27) * 0x94D049BB133111EBull;
    return number ^ number >> 31;
}

static int strikes(Fault *fault)
{
    const u64 number = __atomic_fetch_add(&fault->calls, 1, __ATOMIC_RELAXED);
    if (number < fault->after) return 0;
    if (fault->per_million && scattered(fault->seed + number) % 1000000 >= fault->per_million) return 0;
    if (!fault->times) { __atomic_fetch_add(&fault->hits, 1, __ATOMIC_RELAXED); return 1; }
    u64 hits = __atomic_load_n(&fault->hits, __ATOMIC_RELAXED);
    while (hits < fault->times)
        if (__atomic_compare_exchange_n(&fault->hits, &hits, hits + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 1;
    return 0;
}

static Fault *striking(const Call *call, u32 entry)
{
    const u32 count = world->fault_count < FAULTS ? world->fault_count : FAULTS;
    for (u32 i = 0; i < count; i++)
        if (is_about(&world->faults[i], call, entry) && strikes(&world->faults[i])) return &world->faults[i];
    return NULL;
}

/* Until the fault is taken back, made to hang no more, or another takes its place. */
static void hang(Fault *fault)
{
    const u32 tag = fault->tag;
    __atomic_fetch_add(&fault->waiting, 1, __ATOMIC_RELAXED);
    while (fault->exists && fault->hangs && fault->tag == tag) rest_us(HANG_STEP_US);
    if (fault->tag == tag) __atomic_fetch_sub(&fault->waiting, 1, __ATOMIC_RELAXED);
}

/* In small rests, so that a fault that is taken back delays no more. */
static void delay(const Fault *fault)
{
    const u32 tag = fault->tag;
    for (u32 left_us = fault->delay_us; left_us && fault->exists && fault->tag == tag;) {
        const u32 rest = left_us < DELAY_STEP_US ? left_us : DELAY_STEP_US;
        rest_us(rest);
        left_us -= rest;
    }
}

/* What the whole call answers, after any delay; garbage is kept for its end. */
int fault_code(Call *call, u32 entry)
{
    Fault *fault = striking(call, entry);
    if (!fault) return SUCCESS;
    const int code = fault->code;
    if (fault->has_garbage) call->garbage = fault;
    if (fault->delay_us) delay(fault);
    if (fault->hangs) hang(fault);
    return code;
}

/* What a call answers whose card became known only after it had begun. */
int card_fault_code(Call *call)
{
    if (call->card->lost_code) return call->card->lost_code;
    call->met_general_faults = 1;
    return fault_code(call, NONE);
}

/* What one entry answers: a field, a metric, a sensor. Garbage of an entry is garbage of what is answered next. */
int entry_code(Call *call, u32 entry)
{
    call->garbage = call->garbage && call->garbage->entry == NONE ? call->garbage : NULL;
    return fault_code(call, entry);
}

void fill(const Fault *fault, void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)out)[i] = fault->garbage >> i % 8 * 8;
}
