/* A small libnvidia-ml.so.1: the calls the collector makes, over a world that a test sets while they are made.
 *
 * Signatures and struct layouts are those of nvml.h (r590, x86-64). Every call can be told to fail, for one card
 * (or MIG device) or for all; with -DOLD_DRIVER neither the second version of the memory call nor the third of the
 * process lists exists, as before 510.
 */
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CARDS 8
#define INSTANCES 8
#define FAULTS 64
#define PROCESSES 16
#define NO_INSTANCE 0xFFFFFFFFu

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { COMPUTE, GRAPHICS, MPS, PROCESS_LISTS };

typedef struct { unsigned pid; unsigned long long used; unsigned gi_id, ci_id; } ProcessInfo;

typedef struct Device {
    struct Device *card; /* of a MIG device: the card it is on */
    int exists;
    char uuid[96], name[96], bus_id[32];
    unsigned long long total, reserved, used, millijoules;
    unsigned busy_percent, milliwatts, celsius, sm_megahertz, memory_megahertz;
    unsigned mig_mode, full_card_profile, full_card_sms;
    unsigned gi_id, start, size, sms, memory_mib;
    ProcessInfo processes[PROCESS_LISTS][PROCESSES]; /* of a card, those of its MIG devices too */
    unsigned process_count[PROCESS_LISTS];
} Device;

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; unsigned long long mib; } Attributes;
typedef struct { Device *device; unsigned id, profile, start, size; } InstanceInfo;
typedef struct { unsigned id, p2p, slices, instances, sms, copy, decoder, encoder, jpeg, ofa; unsigned long long mib; } ProfileInfo;

static Device cards[CARDS];
static Device instances[CARDS][INSTANCES];
static int card_count;
static struct { char call[64]; const Device *device; int code; } faults[FAULTS];
static int fault_count;

static int fault(const char *call, const Device *device)
{
    for (int i = 0; i < fault_count; i++)
        if ((!faults[i].call[0] || !strcmp(faults[i].call, call)) && (!faults[i].device || faults[i].device == device))
            return faults[i].code;
    return SUCCESS;
}

#define CALL(device)                                                                                                   \
    do {                                                                                                               \
        int code = fault(__func__, device);                                                                            \
        if (code != SUCCESS) return code;                                                                              \
    } while (0)
#define GET(name, type, field)                                                                                         \
    EXPORT int name(const Device *device, type *value) { CALL(device); *value = device->field; return SUCCESS; }

/* What tests call. */
EXPORT void fake_reset(void)
{
    memset(cards, 0, sizeof cards);
    memset(instances, 0, sizeof instances);
    card_count = fault_count = 0;
}

EXPORT Device *fake_card(int index, const char *uuid, const char *name)
{
    Device *card = &cards[index];
    card->exists = 1;
    strncpy(card->uuid, uuid, sizeof card->uuid - 1);
    strncpy(card->name, name, sizeof card->name - 1);
    if (index >= card_count) card_count = index + 1;
    return card;
}

EXPORT Device *fake_instance(int card, int index, const char *uuid, const char *name)
{
    Device *instance = &instances[card][index];
    instance->card = &cards[card];
    instance->exists = 1;
    strncpy(instance->uuid, uuid, sizeof instance->uuid - 1);
    strncpy(instance->name, name, sizeof instance->name - 1);
    return instance;
}

EXPORT void fake_set(Device *device, const char *field, unsigned long long value)
{
#define FIELD(name) if (!strcmp(field, #name)) device->name = value
    FIELD(exists); FIELD(total); FIELD(reserved); FIELD(used); FIELD(millijoules); FIELD(busy_percent);
    FIELD(milliwatts); FIELD(celsius); FIELD(sm_megahertz); FIELD(memory_megahertz); FIELD(mig_mode);
    FIELD(full_card_profile); FIELD(full_card_sms); FIELD(gi_id); FIELD(start); FIELD(size); FIELD(sms);
    FIELD(memory_mib);
}

EXPORT void fake_process(Device *device, int list, unsigned pid, unsigned long long used)
{
    Device *card = device->card ? device->card : device;
    unsigned gi_id = device->card ? device->gi_id : NO_INSTANCE, ci_id = device->card ? 0 : NO_INSTANCE;
    card->processes[list][card->process_count[list]++] = (ProcessInfo){pid, used, gi_id, ci_id};
}

EXPORT void fake_end_processes(Device *card) { memset(card->process_count, 0, sizeof card->process_count); }

/* An empty call name means every call, no device every device; code 0 takes all faults back. */
EXPORT void fake_fault(const char *call, const Device *device, int code)
{
    if (code == SUCCESS) { fault_count = 0; return; }
    strncpy(faults[fault_count].call, call, sizeof faults[0].call - 1);
    faults[fault_count].device = device;
    faults[fault_count++].code = code;
}

/* What the collector calls. */
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; CALL(NULL); return SUCCESS; }
EXPORT int nvmlShutdown(void) { CALL(NULL); return SUCCESS; }
EXPORT const char *nvmlErrorString(int code) { (void)code; return "fake error"; }

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    CALL(NULL);
    strncpy(version, "590.48.01", length);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { CALL(NULL); *count = card_count; return SUCCESS; }

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device)
{
    if (index >= (unsigned)card_count) return INVALID_ARGUMENT;
    CALL(&cards[index]);
    *device = &cards[index];
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(const Device *device, char *uuid, unsigned length)
{
    CALL(device);
    strncpy(uuid, device->uuid, length);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetName(const Device *device, char *name, unsigned length)
{
    CALL(device);
    strncpy(name, device->name, length);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetPciInfo_v3(const Device *device, PciInfo *info)
{
    CALL(device);
    memset(info, 0, sizeof *info);
    strncpy(info->bus_id, "00000000:65:00.0", sizeof info->bus_id - 1);
    return SUCCESS;
}

#ifndef OLD_DRIVER
EXPORT int nvmlDeviceGetMemoryInfo_v2(const Device *device, MemoryV2 *memory)
{
    CALL(device);
    if (memory->version != 0x02000028) return INVALID_ARGUMENT;
    if (!device->exists) return INVALID_ARGUMENT; /* a MIG device that was destroyed */
    memory->total = device->total;
    memory->reserved = device->reserved;
    memory->used = device->used;
    memory->free = device->total - device->reserved - device->used;
    return SUCCESS;
}
#endif

EXPORT int nvmlDeviceGetUtilizationRates(const Device *device, Utilization *rates)
{
    CALL(device);
    rates->gpu = device->busy_percent;
    rates->memory = 0;
    return SUCCESS;
}

#ifndef OLD_DRIVER
static int running(const Device *device, int list, unsigned *count, ProcessInfo *infos)
{
    const unsigned room = *count, there = device->process_count[list];
    *count = there;
    if (!there) return SUCCESS;
    if (!infos || room < there) return INSUFFICIENT_SIZE;
    memcpy(infos, device->processes[list], there * sizeof *infos);
    return SUCCESS;
}
#define RUNNING(name, list)                                                                                            \
    EXPORT int name(const Device *device, unsigned *count, ProcessInfo *infos)                                         \
    { CALL(device); return running(device, list, count, infos); }
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)
#endif

GET(nvmlDeviceGetPowerUsage, unsigned, milliwatts)
GET(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, millijoules)
GET(nvmlDeviceGetGpuInstanceId, unsigned, gi_id)

EXPORT int nvmlDeviceGetTemperature(const Device *device, int sensor, unsigned *celsius)
{
    (void)sensor;
    CALL(device);
    *celsius = device->celsius;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetClockInfo(const Device *device, int clock, unsigned *megahertz)
{
    CALL(device);
    *megahertz = clock == 2 ? device->memory_megahertz : device->sm_megahertz;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(const Device *device, unsigned *current, unsigned *pending)
{
    CALL(device);
    *current = *pending = device->mig_mode;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(const Device *device, unsigned *count)
{
    CALL(device);
    *count = INSTANCES;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(const Device *device, unsigned index, Device **instance)
{
    CALL(device);
    *instance = &instances[device - cards][index];
    return (*instance)->exists ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetAttributes_v2(const Device *device, Attributes *attributes)
{
    CALL(device);
    memset(attributes, 0, sizeof *attributes);
    attributes->sms = device->sms;
    attributes->gi_slices = device->size;
    attributes->mib = device->memory_mib;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceById(const Device *device, unsigned id, Device **instance)
{
    CALL(device);
    for (int i = 0; i < INSTANCES; i++) {
        *instance = &instances[device - cards][i];
        if ((*instance)->exists && (*instance)->gi_id == id) return SUCCESS;
    }
    return NOT_FOUND;
}

EXPORT int nvmlGpuInstanceGetInfo(Device *instance, InstanceInfo *info)
{
    CALL(instance);
    *info = (InstanceInfo){instance->card, instance->gi_id, 0, instance->start, instance->size};
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(const Device *device, unsigned profile, ProfileInfo *info)
{
    CALL(device);
    if (profile != device->full_card_profile) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->sms = device->full_card_sms;
    return SUCCESS;
}
