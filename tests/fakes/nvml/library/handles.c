/* Handles: numbers that say which card and instance they mean, and of which initialisation and generation.
 *
 * From the top: 8 bits of a mark, 16 of the initialisation, 4 of the kind, 8 of the card, 12 of the row, 16 of the
 * instance's generation. A real driver would crash or answer for another instance where these are stale.
 */
#include <stdatomic.h>

#include "driver.h"

#define MARK 0x0Full

static atomic_uint epoch;

void forget_handles(void) { epoch++; }

static Handle handle(u32 kind, u32 slot, u32 row, u32 generation)
{
    return (Handle)(MARK << 56 | (u64)(epoch & 0xFFFF) << 40 | (u64)kind << 36 | (u64)slot << 28 |
                    (u64)(row & 0xFFF) << 16 | (generation & 0xFFFF));
}

Handle card_handle(u32 slot) { return handle(CARD, slot, 0, 0); }

Handle instance_handle(u32 slot, u32 row, u32 kind)
{
    return handle(kind, slot, row, world->cards[slot].instances[row].generation);
}

/* Fill in what a handle means; INVALID_ARGUMENT where that is not there any more. */
int resolve(Handle handle, Call *call)
{
    const u64 bits = (u64)handle;
    const u32 slot = bits >> 28 & 0xFF, row = bits >> 16 & 0xFFF;
    if (bits >> 56 != MARK || (bits >> 40 & 0xFFFF) != (epoch & 0xFFFF) || slot >= CARDS) return INVALID_ARGUMENT;
    call->slot = slot;
    call->card = &world->cards[slot];
    call->kind = bits >> 36 & 0xF;
    if (!call->card->exists) return INVALID_ARGUMENT;
    if (call->kind == CARD) return SUCCESS;
    if (row >= INSTANCES) return INVALID_ARGUMENT;
    call->row = row;
    call->instance = &call->card->instances[row];
    const int is_same = call->instance->exists && (call->instance->generation & 0xFFFF) == (bits & 0xFFFF);
    return is_same ? SUCCESS : INVALID_ARGUMENT;
}

/* Cards are counted in the order of their slots; NONE where there are not so many. */
u32 slot_of_index(u32 index)
{
    for (u32 slot = 0; slot < CARDS; slot++)
        if (world->cards[slot].exists && !index--) return slot;
    return NONE;
}

u32 index_of_slot(u32 of)
{
    u32 index = 0;
    for (u32 slot = 0; slot < of; slot++) index += world->cards[slot].exists != 0;
    return index;
}
