/* One number of one card: memory, utilisation, power, clocks, errors. */
#include "driver.h"

typedef struct { u64 total, free, used; } MemoryV1;
typedef struct { u32 version; u64 total, reserved, free, used; } MemoryV2;
typedef struct { u32 gpu, memory; } Utilization;
typedef struct { u32 version, sensor; i32 celsius; } TemperatureV1;

#define MEMORY_V2_VERSION 0x02000028
#define TEMPERATURE_V1_VERSION 0x0100000C
#define PCIE_WINDOW_US 20000
#define SENSOR_GPU 0
enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO };

static MemoryV2 memory_of(const Call *call)
{
    MemoryV2 memory;
    READING {
        memory.total = call->instance ? call->instance->total : call->card->total;
        memory.reserved = call->instance ? call->instance->reserved : call->card->reserved;
        memory.used = used_bytes(call->card, call->instance, now_us());
        memory.free = memory.total - memory.reserved - memory.used;
    }
    return memory;
}

/* `used` of the first version is with what the driver reserves. */
EXPORT int nvmlDeviceGetMemoryInfo(Handle handle, MemoryV1 *told)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    NEEDS(CAN_MEMORY);
    const MemoryV2 memory = memory_of(&call);
    *told = (MemoryV1){memory.total, memory.free, memory.used + memory.reserved};
    END(told, sizeof *told);
}

SINCE_510 int nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2 *told)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    NEEDS(CAN_MEMORY);
    if (told->version != MEMORY_V2_VERSION) return INVALID_ARGUMENT;
    const MemoryV2 memory = memory_of(&call);
    told->total = memory.total, told->reserved = memory.reserved, told->free = memory.free, told->used = memory.used;
    END(&told->total, sizeof *told - offsetof(MemoryV2, total));
}

EXPORT int nvmlDeviceGetUtilizationRates(Handle handle, Utilization *rates)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_UTILIZATION);
    /* Some drivers say 0 of a card in MIG mode. */
    if (call.card->mig_mode && !world->mig_busy_is_zero) return NOT_SUPPORTED;
    READING {
        const u64 at_us = now_us();
        rates->gpu = call.card->mig_mode ? 0 : busy_percent(call.card, at_us);
        rates->memory = call.card->mig_mode ? 0 : memory_percent(call.card, at_us);
    }
    END(rates, sizeof *rates);
}

#define ENGINE(name, ability, field)                                                                                   \
    EXPORT int name(Handle handle, u32 *percent, u32 *period_us)                                                       \
    {                                                                                                                  \
        BEGIN(handle, CARD);                                                                                           \
        NEEDS(ability);                                                                                                \
        NOT_IN_MIG_MODE;                                                                                               \
        READING *percent = call.card->field, *period_us = call.card->sample_period_us;                                 \
        END(percent, sizeof *percent);                                                                                 \
    }
ENGINE(nvmlDeviceGetEncoderUtilization, CAN_UTILIZATION, encoder_percent)
ENGINE(nvmlDeviceGetDecoderUtilization, CAN_UTILIZATION, decoder_percent)
ENGINE(nvmlDeviceGetJpgUtilization, CAN_JPEG_OFA, jpeg_percent)
ENGINE(nvmlDeviceGetOfaUtilization, CAN_JPEG_OFA, ofa_percent)

EXPORT int nvmlDeviceGetPowerUsage(Handle handle, u32 *milliwatts)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_POWER);
    READING *milliwatts = average_milliwatts(call.card, now_us());
    END(milliwatts, sizeof *milliwatts);
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(Handle handle, u64 *millijoules)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ENERGY);
    READING {
        const Card *card = call.card;
        /* A test may put any 64 bits here; they would not survive the way through nanojoules. */
        *millijoules = card->simulated ? energy_nanojoules(card, now_us()) / 1000000 : card->millijoules;
    }
    END(millijoules, sizeof *millijoules);
}

EXPORT int nvmlDeviceGetTemperature(Handle handle, u32 sensor, u32 *celsius)
{
    BEGIN(handle, CARD);
    ENTRY(sensor);
    if (sensor != SENSOR_GPU) return INVALID_ARGUMENT;
    READING *celsius = call.card->celsius;
    END(celsius, sizeof *celsius);
}

EXPORT int nvmlDeviceGetTemperatureV(Handle handle, TemperatureV1 *told)
{
    BEGIN(handle, CARD);
    if (told->version != TEMPERATURE_V1_VERSION) return ARGUMENT_VERSION_MISMATCH;
    ENTRY(told->sensor);
    if (told->sensor != SENSOR_GPU) return INVALID_ARGUMENT;
    READING told->celsius = call.card->celsius;
    END(&told->celsius, sizeof told->celsius);
}

EXPORT int nvmlDeviceGetClockInfo(Handle handle, u32 clock, u32 *megahertz)
{
    BEGIN(handle, CARD);
    ENTRY(clock);
    if (clock > CLOCK_VIDEO) return INVALID_ARGUMENT;
    READING {
        const Card *card = call.card;
        *megahertz = clock == CLOCK_MEMORY ? card->memory_megahertz
                   : clock == CLOCK_VIDEO ? card->video_megahertz : card->sm_megahertz;
    }
    END(megahertz, sizeof *megahertz);
}

EXPORT_VALUE(nvmlDeviceGetCurrentClocksEventReasons, u64, CAN_CLOCK_EVENTS, clock_event_reasons)
EXPORT_VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, u64, CAN_CLOCK_EVENTS, clock_event_reasons)
EXPORT_VALUE(nvmlDeviceGetPerformanceState, u32, 0, performance_state)
EXPORT_VALUE(nvmlDeviceGetEnforcedPowerLimit, u32, CAN_POWER, limit_milliwatts)
EXPORT_VALUE(nvmlDeviceGetPowerManagementLimit, u32, CAN_POWER, limit_milliwatts)
EXPORT_VALUE(nvmlDeviceGetPcieReplayCounter, u32, 0, pcie_replays)

/* It counts for 20 ms before it answers, as the real one does: the reason why nobody may call it on the tick. */
EXPORT int nvmlDeviceGetPcieThroughput(Handle handle, u32 direction, u32 *kib_per_s)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_PCIE_THROUGHPUT);
    NOT_IN_MIG_MODE;
    ENTRY(direction);
    if (direction > 1) return INVALID_ARGUMENT;
    rest_us(PCIE_WINDOW_US);
    READING *kib_per_s = direction ? call.card->pcie_rx_kib_per_s : call.card->pcie_tx_kib_per_s;
    END(kib_per_s, sizeof *kib_per_s);
}
