/* MIG: instances behind holes, their sizes and places, and the way from one handle to another. */
#include "driver.h"

typedef struct { u32 sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; u64 mib; } Attributes;
typedef struct { Handle device; u32 id, profile, start, size; } GpuInstanceInfo;
typedef struct { Handle device, gpu_instance; u32 id, profile, start, size; } ComputeInstanceInfo;
typedef struct { u32 id, p2p, slices, instances, sms, copy, decoder, encoder, jpeg, ofa; u64 mib; } ProfileInfo;
typedef struct {
    u32 version, id, p2p, slices, instances, sms, copy, decoder, encoder, jpeg, ofa;
    u64 mib;
    char name[96];
} ProfileInfoV2;

#define PROFILE_V2_VERSION 0x02000098

EXPORT int nvmlDeviceGetMigMode(Handle handle, u32 *current, u32 *pending)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    READING *current = call.card->mig_mode, *pending = call.card->mig_mode_pending;
    END(current, sizeof *current);
}

EXPORT int nvmlDeviceIsMigDeviceHandle(Handle handle, u32 *is_mig)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    *is_mig = call.kind == MIG_DEVICE;
    END(is_mig, sizeof *is_mig);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle handle, u32 *count)
{
    BEGIN(handle, CARD);
    *count = call.card->abilities & CAN_MIG ? INSTANCES : 0;
    END(count, sizeof *count);
}

/* A hole, or a GPU instance without a compute instance, is NOT_FOUND; the next may be there. */
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, u32 index, Handle *device)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    if (index >= INSTANCES) return INVALID_ARGUMENT;
    const Instance *instance = &call.card->instances[index];
    int is_there = 0;
    READING {
        is_there = instance->exists && instance->ci_id != NONE;
        *device = instance_handle(call.slot, index, MIG_DEVICE);
    }
    return is_there ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle handle, Handle *card)
{
    BEGIN(handle, MIG_DEVICE);
    *card = card_handle(call.slot);
    END(card, 0);
}

#define INSTANCE_ID(name, field)                                                                                       \
    EXPORT int name(Handle handle, u32 *id)                                                                            \
    {                                                                                                                  \
        BEGIN(handle, CARD | MIG_DEVICE);                                                                              \
        if (call.kind == CARD) return INVALID_ARGUMENT;                                                                \
        READING *id = call.instance->field;                                                                            \
        END(id, sizeof *id);                                                                                           \
    }
INSTANCE_ID(nvmlDeviceGetGpuInstanceId, gi_id)
INSTANCE_ID(nvmlDeviceGetComputeInstanceId, ci_id)

EXPORT int nvmlDeviceGetAttributes_v2(Handle handle, Attributes *attributes)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    if (call.kind == CARD) return NOT_SUPPORTED;
    READING {
        const Instance *instance = call.instance;
        *attributes = (Attributes){.sms = instance->sms, .copy = instance->gi_slices, .gi_slices = instance->gi_slices,
                                   .ci_slices = instance->ci_slices, .mib = instance->memory_mib};
    }
    END(attributes, sizeof *attributes);
}
ALIAS(nvmlDeviceGetAttributes, nvmlDeviceGetAttributes_v2, Handle, Attributes *);

/* The first row of a GPU instance; NONE where there is no such one. */
static u32 row_of(const Card *card, u32 gi_id)
{
    for (u32 row = 0; row < INSTANCES; row++)
        if (card->instances[row].exists && card->instances[row].gi_id == gi_id) return row;
    return NONE;
}

EXPORT int nvmlDeviceGetGpuInstanceById(Handle handle, u32 id, Handle *instance)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    u32 row = NONE;
    READING row = row_of(call.card, id);
    if (row == NONE) return NOT_FOUND;
    *instance = instance_handle(call.slot, row, GPU_INSTANCE);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstances(Handle handle, u32 profile, Handle *instances, u32 *count)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    u32 rows[INSTANCES], there = 0;
    READING {
        there = 0;
        for (u32 row = 0; row < INSTANCES; row++) {
            const Instance *instance = &call.card->instances[row];
            if (instance->exists && instance->gi_profile == profile && row_of(call.card, instance->gi_id) == row)
                rows[there++] = row;
        }
    }
    for (u32 i = 0; i < there; i++) instances[i] = instance_handle(call.slot, rows[i], GPU_INSTANCE);
    *count = there;
    return SUCCESS;
}

EXPORT int nvmlGpuInstanceGetInfo(Handle handle, GpuInstanceInfo *info)
{
    BEGIN(handle, GPU_INSTANCE);
    READING {
        const Instance *instance = call.instance;
        *info = (GpuInstanceInfo){card_handle(call.slot), instance->gi_id, instance->gi_profile, instance->start,
                                  instance->size};
    }
    END(&info->profile, 3 * sizeof(u32));
}

EXPORT int nvmlGpuInstanceGetComputeInstanceById(Handle handle, u32 id, Handle *instance)
{
    BEGIN(handle, GPU_INSTANCE);
    u32 found = NONE;
    READING {
        found = NONE;
        for (u32 row = 0; row < INSTANCES; row++) {
            const Instance *candidate = &call.card->instances[row];
            if (candidate->exists && candidate->gi_id == call.instance->gi_id && candidate->ci_id == id) found = row;
        }
    }
    if (found == NONE || id == NONE) return NOT_FOUND;
    *instance = instance_handle(call.slot, found, COMPUTE_INSTANCE);
    return SUCCESS;
}

/* Profiles of compute instances go by their slices: 0 is one, 4 is seven. */
static u32 compute_profile(u32 slices)
{
    return slices == 7 ? 4 : slices == 8 ? 5 : slices == 6 ? 6 : slices - 1;
}

EXPORT int nvmlGpuInstanceGetComputeInstances(Handle handle, u32 profile, Handle *instances, u32 *count)
{
    BEGIN(handle, GPU_INSTANCE);
    u32 rows[INSTANCES], there = 0;
    READING {
        there = 0;
        for (u32 row = 0; row < INSTANCES; row++) {
            const Instance *candidate = &call.card->instances[row];
            if (candidate->exists && candidate->gi_id == call.instance->gi_id && candidate->ci_id != NONE &&
                compute_profile(candidate->ci_slices) == profile) rows[there++] = row;
        }
    }
    for (u32 i = 0; i < there; i++) instances[i] = instance_handle(call.slot, rows[i], COMPUTE_INSTANCE);
    *count = there;
    return SUCCESS;
}

EXPORT int nvmlComputeInstanceGetInfo_v2(Handle handle, ComputeInstanceInfo *info)
{
    BEGIN(handle, COMPUTE_INSTANCE);
    READING {
        const Instance *instance = call.instance;
        u32 start = 0;
        /* The compute instances of a GPU instance lie one after the other. */
        for (u32 row = 0; row < call.row; row++) {
            const Instance *before = &call.card->instances[row];
            if (before->exists && before->gi_id == instance->gi_id && before->ci_id != NONE) start += before->ci_slices;
        }
        *info = (ComputeInstanceInfo){card_handle(call.slot), instance_handle(call.slot, row_of(call.card,
                                      instance->gi_id), GPU_INSTANCE), instance->ci_id,
                                      compute_profile(instance->ci_slices), start, instance->ci_slices};
    }
    return SUCCESS;
}
ALIAS(nvmlComputeInstanceGetInfo, nvmlComputeInstanceGetInfo_v2, Handle, ComputeInstanceInfo *);

/* Of the profiles only the one of the full card is told: how many SMs a card has in MIG mode. */
EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(Handle handle, u32 profile, ProfileInfo *info)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    if (profile != call.card->full_card_profile) return NOT_SUPPORTED;
    READING *info = (ProfileInfo){.slices = 7, .instances = 1, .sms = call.card->full_card_sms,
                                  .mib = call.card->total >> 20};
    END(info, sizeof *info);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(Handle handle, u32 profile, ProfileInfoV2 *info)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_MIG);
    if (info->version != PROFILE_V2_VERSION) return ARGUMENT_VERSION_MISMATCH;
    if (profile != call.card->full_card_profile) return NOT_SUPPORTED;
    READING *info = (ProfileInfoV2){.version = PROFILE_V2_VERSION, .slices = 7, .instances = 1,
                                    .sms = call.card->full_card_sms, .mib = call.card->total >> 20};
    return SUCCESS;
}
