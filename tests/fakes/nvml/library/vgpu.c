/* A host that cuts its cards into virtual ones: which there are, and what they and their processes did. */
#include "driver.h"

typedef struct { u32 vgpu; u64 at_us; Value sm, memory, encoder, decoder; } VgpuSample;
typedef struct { u64 at_us; u32 vgpu; Value sm, memory, encoder, decoder, jpeg, ofa; } VgpuSampleV2;
typedef struct { u32 version, type, count; u64 since_us; VgpuSampleV2 *rows; } VgpuSamplesV2;
typedef struct { u32 vgpu, pid; char name[64]; u64 at_us; u32 sm, memory, encoder, decoder; } VgpuProcessSample;

#define SAMPLES_V2_VERSION 0x01000020
#define VM_ID_IS_UUID 1

/* Where there is none, SUCCESS and a count of 0. */
static int has_room(u32 *count, u32 there, const void *rows)
{
    const u32 room = *count;
    *count = there;
    return there && (!rows || room < there) ? INSUFFICIENT_SIZE : SUCCESS;
}

/* The virtual cards that told something after `since_us`, or all of them. */
static u32 newer(const Card *card, u64 since_us, int all, Vgpu *found)
{
    u32 count = 0;
    for (u64 i = 0; i < card->vgpu_count && i < VGPUS; i++)
        if (all || card->vgpus[i].at_us > since_us) found[count++] = card->vgpus[i];
    return count;
}

EXPORT int nvmlDeviceGetActiveVgpus(Handle handle, u32 *count, u32 *ids)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_VGPU);
    Vgpu found[VGPUS];
    u32 there = 0;
    READING there = newer(call.card, 0, 1, found);
    const int code = has_room(count, there, ids);
    for (u32 i = 0; code == SUCCESS && i < there; i++) ids[i] = found[i].id;
    return code;
}

EXPORT int nvmlDeviceGetVgpuUtilization(Handle handle, u64 since_us, u32 *type, u32 *count, VgpuSample *told)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_VGPU);
    Vgpu found[VGPUS];
    u32 there = 0;
    READING there = newer(call.card, since_us, 0, found);
    *type = VALUE_UNSIGNED_INT;
    const int code = has_room(count, there, told);
    for (u32 i = 0; code == SUCCESS && i < there; i++)
        told[i] = (VgpuSample){found[i].id, found[i].at_us, {.whole = found[i].sm}, {.whole = found[i].memory},
                               {.whole = found[i].encoder}, {.whole = found[i].decoder}};
    return code;
}

EXPORT int nvmlDeviceGetVgpuInstancesUtilizationInfo(Handle handle, VgpuSamplesV2 *told)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_VGPU);
    if (told->version != SAMPLES_V2_VERSION) return ARGUMENT_VERSION_MISMATCH;
    Vgpu found[VGPUS];
    u32 there = 0;
    READING there = newer(call.card, told->since_us, 0, found);
    told->type = VALUE_UNSIGNED_INT;
    const int code = has_room(&told->count, there, told->rows);
    for (u32 i = 0; code == SUCCESS && i < there; i++)
        told->rows[i] = (VgpuSampleV2){found[i].at_us, found[i].id, {.whole = found[i].sm}, {.whole = found[i].memory},
                                       {.whole = found[i].encoder}, {.whole = found[i].decoder},
                                       {.whole = found[i].jpeg}, {.whole = found[i].ofa}};
    return code;
}

EXPORT int nvmlDeviceGetVgpuProcessUtilization(Handle handle, u64 since_us, u32 *count, VgpuProcessSample *told)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_VGPU);
    VgpuProcess found[VGPU_PROCESSES];
    u32 there = 0;
    READING {
        there = 0;
        for (u64 i = 0; i < call.card->vgpu_process_count && i < VGPU_PROCESSES; i++)
            if (call.card->vgpu_processes[i].at_us > since_us) found[there++] = call.card->vgpu_processes[i];
    }
    const int code = has_room(count, there, told);
    for (u32 i = 0; code == SUCCESS && i < there; i++) {
        const VgpuProcess *row = &found[i];
        told[i] = (VgpuProcessSample){.vgpu = row->vgpu_id, .pid = row->pid, .at_us = row->at_us, .sm = row->sm,
                                      .memory = row->memory, .encoder = row->encoder, .decoder = row->decoder};
        memcpy(told[i].name, row->name, sizeof told[i].name);
    }
    return code;
}

/* A virtual card is named by a number that is its own on the whole host. */
static int vgpu_of(u32 id, Vgpu *found)
{
    int code = NOT_FOUND;
    READING {
        code = NOT_FOUND;
        for (u32 slot = 0; slot < CARDS; slot++)
            for (u64 i = 0; i < world->cards[slot].vgpu_count && i < VGPUS; i++)
                if (world->cards[slot].exists && world->cards[slot].vgpus[i].id == id)
                    *found = world->cards[slot].vgpus[i], code = SUCCESS;
    }
    return code;
}

#define VGPU(id)                                                                                                       \
    BEGIN(NULL, NOTHING);                                                                                              \
    Vgpu found;                                                                                                        \
    const int missing = vgpu_of((id), &found);                                                                         \
    if (missing != SUCCESS) return missing

EXPORT int nvmlVgpuInstanceGetVmID(u32 id, char *vm_id, u32 length, u32 *type)
{
    VGPU(id);
    *type = VM_ID_IS_UUID;
    return text(&call, found.vm_id, sizeof found.vm_id, vm_id, length);
}

EXPORT int nvmlVgpuInstanceGetUUID(u32 id, char *uuid, u32 length)
{
    VGPU(id);
    return text(&call, found.uuid, sizeof found.uuid, uuid, length);
}

EXPORT int nvmlVgpuInstanceGetType(u32 id, u32 *type)
{
    VGPU(id);
    *type = found.type_id;
    END(type, sizeof *type);
}

EXPORT int nvmlVgpuInstanceGetFbUsage(u32 id, u64 *bytes)
{
    VGPU(id);
    *bytes = found.used_bytes;
    END(bytes, sizeof *bytes);
}
