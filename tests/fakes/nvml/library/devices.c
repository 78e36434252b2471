/* The driver itself, and which cards there are. */
#include <stdio.h>
#include <strings.h>

#include "driver.h"

EXPORT const char *nvmlErrorString(int code)
{
    static const char *const texts[] = {
        "The operation was successful", "Uninitialized", "Invalid Argument", "Not Supported",
        "Insufficient Permissions", "Already Initialized", "Not Found", "Insufficient Size",
        "Insufficient External Power", "Driver Not Loaded", "Timeout", "Interrupt Request Issue",
        "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
        "GPU requires reset", "The operating system has blocked the request", "RM has detected an NVML/RM version mismatch",
        "GPU in use", "Insufficient Memory", "No data"};
    return code >= 0 && (size_t)code < sizeof texts / sizeof *texts ? texts[code] : "Unknown Error";
}

EXPORT int nvmlSystemGetDriverVersion(char *version, u32 length)
{
    BEGIN(NULL, NOTHING);
    return text(&call, world->driver_version, sizeof world->driver_version, version, length);
}

EXPORT int nvmlSystemGetNVMLVersion(char *version, u32 length)
{
    BEGIN(NULL, NOTHING);
    return text(&call, world->nvml_version, sizeof world->nvml_version, version, length);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    BEGIN(NULL, NOTHING);
    *version = world->cuda_version;
    END(version, sizeof *version);
}
ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2, int *);

EXPORT int nvmlDeviceGetCount_v2(u32 *count)
{
    BEGIN(NULL, NOTHING);
    READING *count = index_of_slot(CARDS);
    END(count, sizeof *count);
}
ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, u32 *);

/* A lost card, or a fault of one card, is met by whoever asks for its handle. */
static int hand_out(Call *call, u32 slot, Handle *handle)
{
    if (slot == NONE) return INVALID_ARGUMENT;
    call->slot = slot;
    call->card = &world->cards[slot];
    const int failed = card_fault_code(call);
    if (failed == SUCCESS) *handle = card_handle(slot);
    return failed;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(u32 index, Handle *handle)
{
    BEGIN(NULL, NOTHING);
    u32 slot = NONE;
    READING slot = slot_of_index(index);
    return hand_out(&call, slot, handle);
}
ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, u32, Handle *);

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *handle)
{
    BEGIN(NULL, NOTHING);
    u32 found = NONE, row = NONE;
    READING {
        found = row = NONE;
        for (u32 slot = 0; slot < CARDS; slot++) {
            const Card *card = &world->cards[slot];
            if (!card->exists || card->lost_code) continue; /* one that is lost is not found by its UUID */
            if (!strncmp(card->uuid, uuid, sizeof card->uuid)) found = slot;
            for (u32 i = 0; i < INSTANCES; i++) {
                const Instance *instance = &card->instances[i];
                if (instance->exists && instance->ci_id != NONE && !strncmp(instance->uuid, uuid, sizeof instance->uuid))
                    found = slot, row = i;
            }
        }
    }
    if (found == NONE) return NOT_FOUND;
    if (row == NONE) return hand_out(&call, found, handle);
    *handle = instance_handle(found, row, MIG_DEVICE);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Handle *handle)
{
    BEGIN(NULL, NOTHING);
    u32 found = NONE, domain, bus, device;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) return INVALID_ARGUMENT;
    READING {
        found = NONE;
        for (u32 slot = 0; slot < CARDS; slot++) {
            const Card *card = &world->cards[slot];
            if (card->exists && card->pci_domain == domain && card->pci_bus == bus && card->pci_device == device)
                found = slot;
        }
    }
    return found == NONE ? NOT_FOUND : hand_out(&call, found, handle);
}
ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2, const char *, Handle *);

EXPORT int nvmlDeviceGetHandleBySerial(const char *serial, Handle *handle)
{
    BEGIN(NULL, NOTHING);
    u32 found = NONE;
    READING {
        found = NONE;
        for (u32 slot = 0; slot < CARDS; slot++) {
            const Card *card = &world->cards[slot];
            if (card->exists && !strncmp(card->serial, serial, sizeof card->serial)) found = slot;
        }
    }
    return found == NONE ? NOT_FOUND : hand_out(&call, found, handle);
}

EXPORT int nvmlDeviceGetIndex(Handle handle, u32 *index)
{
    BEGIN(handle, CARD);
    READING *index = index_of_slot(call.slot);
    END(index, sizeof *index);
}

EXPORT int nvmlDeviceGetUUID(Handle handle, char *uuid, u32 length)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    const char *from = call.kind == CARD ? call.card->uuid : call.instance->uuid;
    return text(&call, from, sizeof call.card->uuid, uuid, length);
}

EXPORT int nvmlDeviceGetName(Handle handle, char *name, u32 length)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    const char *from = call.kind == CARD ? call.card->name : call.instance->name;
    return text(&call, from, sizeof call.card->name, name, length);
}

EXPORT int nvmlDeviceGetSerial(Handle handle, char *serial, u32 length)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_SERIAL);
    return text(&call, call.card->serial, sizeof call.card->serial, serial, length);
}

EXPORT int nvmlDeviceGetVbiosVersion(Handle handle, char *version, u32 length)
{
    BEGIN(handle, CARD);
    return text(&call, call.card->vbios, sizeof call.card->vbios, version, length);
}

EXPORT int nvmlDeviceGetPciInfo_v3(Handle handle, PciInfo *info)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    READING {
        const Card *card = call.card;
        memset(info, 0, sizeof *info);
        info->domain = card->pci_domain, info->bus = card->pci_bus, info->device = card->pci_device;
        info->pci_id = card->pci_device_id, info->subsystem_id = card->pci_subsystem_id;
        memcpy(info->bus_id, card->bus_id, sizeof info->bus_id);
        snprintf(info->legacy, sizeof info->legacy, "%04X:%02X:%02X.0", info->domain & 0xFFFF, info->bus & 0xFF,
                 info->device & 0xFF);
    }
    END(info, sizeof *info);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    READING *major = call.card->compute_major, *minor = call.card->compute_minor;
    END(major, sizeof *major);
}

EXPORT int nvmlDeviceGetNumaNodeId(Handle handle, u32 *node)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_NUMA);
    READING *node = call.card->numa_node;
    END(node, sizeof *node);
}

/* The bindings give it eight bytes where the header has an enum of four. */
EXPORT_VALUE(nvmlDeviceGetVirtualizationMode, u32, 0, virtualization_mode)
EXPORT_VALUE(nvmlDeviceGetMinorNumber, u32, 0, minor)
EXPORT_VALUE(nvmlDeviceGetArchitecture, u32, 0, architecture)
EXPORT_VALUE(nvmlDeviceGetPersistenceMode, u32, 0, persistence_mode)
