/* `nvmlDeviceGetFieldValues`: many numbers in one call, each with its own answer, stamp and type. */
#include "driver.h"

#define KIB 1024
#define FIELD_COUNT 308
#define ALL_LINKS NONE

typedef struct { u32 id, scope; u64 at_us, latency_us; u32 type, code; Value value; } FieldValue;

static int word(FieldValue *field, u64 ability, const Card *card, u32 value)
{
    if (ability && !(card->abilities & ability)) return NOT_SUPPORTED;
    field->type = VALUE_UNSIGNED_INT;
    field->value.whole = 0;
    field->value.word = value;
    return SUCCESS;
}

static int whole(FieldValue *field, u64 ability, const Card *card, u64 value)
{
    if (ability && !(card->abilities & ability)) return NOT_SUPPORTED;
    field->type = VALUE_UNSIGNED_LONG_LONG;
    field->value.whole = value;
    return SUCCESS;
}

/* A sum over the links, or one of them: `scope` is the link. */
static int link_sum(FieldValue *field, u64 ability, const Card *card, size_t member, u32 unit)
{
    u64 sum = 0;
    if (field->scope != ALL_LINKS && (field->scope >= LINKS || !card->links[field->scope].exists))
        return field->scope < LINKS ? NOT_SUPPORTED : INVALID_ARGUMENT;
    for (u32 link = 0; link < LINKS; link++)
        if (field->scope == ALL_LINKS || field->scope == link)
            sum += *(const u64 *)((const char *)&card->links[link] + member);
    return whole(field, ability, card, sum / unit);
}

static int link_field(FieldValue *field, const Card *card)
{
    switch (field->id) {
    case 38: field->scope = ALL_LINKS; return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[2]), 1);
    case 45: field->scope = ALL_LINKS; return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[3]), 1);
    case 52: field->scope = ALL_LINKS; return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[0]), 1);
    case 59: field->scope = ALL_LINKS; return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[1]), 1);
    case 90: return word(field, CAN_NVLINK, card, card->links[0].speed_mbps);
    case 91: return word(field, CAN_NVLINK, card, card->link_count);
    case 138: return link_sum(field, CAN_NVLINK, card, offsetof(Link, data_tx_bytes), KIB);
    case 139: return link_sum(field, CAN_NVLINK, card, offsetof(Link, data_rx_bytes), KIB);
    case 140: return link_sum(field, CAN_NVLINK, card, offsetof(Link, raw_tx_bytes), KIB);
    case 141: return link_sum(field, CAN_NVLINK, card, offsetof(Link, raw_rx_bytes), KIB);
    case 160: field->scope = ALL_LINKS; return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[4]), 1);
    case 161: return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[0]), 1);
    case 162: return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[1]), 1);
    case 163: return link_sum(field, CAN_NVLINK, card, offsetof(Link, errors[2]), 1);
    case 164: return field->scope < LINKS ? word(field, CAN_NVLINK, card, card->links[field->scope].speed_mbps)
                                          : INVALID_ARGUMENT;
    case 165: return field->scope < LINKS ? word(field, CAN_NVLINK, card, card->links[field->scope].active)
                                          : INVALID_ARGUMENT;
    case 202: return link_sum(field, CAN_NVLINK_BYTES, card, offsetof(Link, data_tx_bytes), 1);
    case 204: return link_sum(field, CAN_NVLINK_BYTES, card, offsetof(Link, data_rx_bytes), 1);
    default: return NOT_SUPPORTED;
    }
}

static int power_field(FieldValue *field, const Card *card, u64 at_us)
{
    switch (field->id) {
    case 83: case 191:
        return whole(field, CAN_ENERGY, card,
                     card->simulated ? energy_nanojoules(card, at_us) / 1000000 : card->millijoules);
    case 185: return word(field, CAN_POWER_FIELDS, card, average_milliwatts(card, at_us));
    case 186:
        if (card->simulated)
            return word(field, CAN_POWER_FIELDS, card, card->idle_milliwatts + (card->sms
                        ? sm_now(card, at_us) * card->dynamic_milliwatts / (1000ull * card->sms) : 0));
        return word(field, CAN_POWER_FIELDS, card,
                    card->milliwatts_instant ? card->milliwatts_instant : card->milliwatts);
    case 188: case 190: case 192: return word(field, CAN_POWER_FIELDS, card, card->limit_milliwatts);
    default: return NOT_SUPPORTED;
    }
}

static int error_field(FieldValue *field, const Card *card)
{
    switch (field->id) {
    case 1: case 2: return word(field, CAN_ECC, card, card->ecc_mode);
    case 3: return whole(field, CAN_ECC, card, card->ecc_corrected[0]);
    case 4: return whole(field, CAN_ECC, card, card->ecc_uncorrected[0]);
    case 5: return whole(field, CAN_ECC, card, card->ecc_corrected[1]);
    case 6: return whole(field, CAN_ECC, card, card->ecc_uncorrected[1]);
    case 29: case 30: return word(field, CAN_RETIRED_PAGES, card, card->retired_pages[field->id - 29]);
    case 31: return word(field, CAN_RETIRED_PAGES, card, card->retirement_pending);
    case 142: return word(field, CAN_ROW_REMAP, card, card->remapped_correctable);
    case 143: return word(field, CAN_ROW_REMAP, card, card->remapped_uncorrectable);
    case 144: return word(field, CAN_ROW_REMAP, card, card->remapping_pending);
    case 145: return word(field, CAN_ROW_REMAP, card, card->remapping_failed);
    default: return NOT_SUPPORTED;
    }
}

static int value_of(FieldValue *field, const Card *card, u64 at_us)
{
    const u32 id = field->id;
    if (!id || id >= FIELD_COUNT) return INVALID_ARGUMENT;
    if (id <= 31 || (id >= 142 && id <= 145)) return error_field(field, card);
    if (id >= 74 && id <= 81) return whole(field, CAN_PERF_POLICY, card, card->perf_policy_ns[id - 74]);
    if (id >= 269 && id <= 271) return whole(field, CAN_CLOCK_EVENT_COUNTERS, card, card->clock_event_ns[id - 269]);
    if (id == 83 || (id >= 185 && id <= 192)) return power_field(field, card, at_us);
    switch (id) {
    case 82: return word(field, CAN_MEMORY_TEMPERATURE, card, card->memory_celsius);
    case 94: return word(field, 0, card, card->pcie_replays);
    case 197: return whole(field, CAN_PCIE_COUNTERS, card,
                           pcie_bytes(card, card->pcie_tx_bytes, card->pcie_tx_bytes_per_busy_second, at_us));
    case 198: return whole(field, CAN_PCIE_COUNTERS, card,
                           pcie_bytes(card, card->pcie_rx_bytes, card->pcie_rx_bytes_per_busy_second, at_us));
    case 230: return word(field, CAN_RECOVERY_ACTION, card, card->recovery_action);
    default: return link_field(field, card);
    }
}

EXPORT int nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue *fields)
{
    BEGIN(handle, CARD);
    if (count < 1 || !fields) return INVALID_ARGUMENT;
    const Fault *garbage = call.garbage;
    for (int i = 0; i < count; i++) {
        FieldValue *field = &fields[i];
        call.garbage = garbage;
        field->code = entry_code(&call, field->id);
        field->at_us = now_us();
        field->latency_us = 0;
        if (field->code != SUCCESS) continue;
        READING field->code = value_of(field, call.card, field->at_us);
        if (field->code == SUCCESS && call.garbage) fill(call.garbage, &field->value, sizeof field->value);
    }
    return SUCCESS;
}
