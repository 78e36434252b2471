/* Memory that fails: ECC, remapped rows, retired pages. */
#include "driver.h"

enum { CORRECTED, UNCORRECTED };
enum { VOLATILE, AGGREGATE };

typedef struct { u32 corrected, corrected_inactive, uncorrected, uncorrected_inactive, pending, failed; } RowsV2;

EXPORT int nvmlDeviceGetEccMode(Handle handle, u32 *current, u32 *pending)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ECC);
    READING *current = *pending = call.card->ecc_mode;
    END(current, sizeof *current);
}

EXPORT int nvmlDeviceGetTotalEccErrors(Handle handle, u32 type, u32 since, u64 *count)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    NEEDS(CAN_ECC);
    ENTRY(type);
    if (type > UNCORRECTED || since > AGGREGATE) return INVALID_ARGUMENT;
    READING *count = type == CORRECTED ? call.card->ecc_corrected[since] : call.card->ecc_uncorrected[since];
    END(count, sizeof *count);
}

/* Where the errors were is kept since boot only. */
EXPORT int nvmlDeviceGetMemoryErrorCounter(Handle handle, u32 type, u32 since, u32 location, u64 *count)
{
    BEGIN(handle, CARD | MIG_DEVICE);
    NEEDS(CAN_ECC);
    ENTRY(location);
    if (type > UNCORRECTED || since > AGGREGATE || location >= LOCATIONS) return INVALID_ARGUMENT;
    if (since == AGGREGATE) return NOT_SUPPORTED;
    READING {
        const Card *card = call.card;
        *count = type == CORRECTED ? card->ecc_corrected_at[location] : card->ecc_uncorrected_at[location];
    }
    END(count, sizeof *count);
}

EXPORT int nvmlDeviceGetRemappedRows(Handle handle, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ROW_REMAP);
    READING {
        *corrected = call.card->remapped_correctable, *uncorrected = call.card->remapped_uncorrectable;
        *pending = call.card->remapping_pending, *failed = call.card->remapping_failed;
    }
    END(corrected, sizeof *corrected);
}

EXPORT int nvmlDeviceGetRemappedRows_v2(Handle handle, RowsV2 *rows)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_ROW_REMAP);
    READING {
        const Card *card = call.card;
        *rows = (RowsV2){card->remapped_correctable, 0, card->remapped_uncorrectable, 0, card->remapping_pending,
                         card->remapping_failed};
    }
    END(rows, sizeof *rows);
}

/* Addresses and times are made up, one page after the other. */
static int retired(const Call *call, u32 cause, u32 *count, u64 *addresses, u64 *times_us)
{
    u32 there = 0;
    if (cause > 1) return INVALID_ARGUMENT;
    READING there = call->card->retired_pages[cause] < PAGES ? call->card->retired_pages[cause] : PAGES;
    const u32 room = *count;
    *count = there;
    if (there && (!addresses || room < there)) return INSUFFICIENT_SIZE;
    for (u32 i = 0; i < there; i++) {
        addresses[i] = (u64)(cause * PAGES + i + 1) << 16;
        if (times_us) times_us[i] = boot_us() + i;
    }
    return SUCCESS;
}

EXPORT int nvmlDeviceGetRetiredPages(Handle handle, u32 cause, u32 *count, u64 *addresses)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_RETIRED_PAGES);
    return retired(&call, cause, count, addresses, NULL);
}

EXPORT int nvmlDeviceGetRetiredPages_v2(Handle handle, u32 cause, u32 *count, u64 *addresses, u64 *times_us)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_RETIRED_PAGES);
    return retired(&call, cause, count, addresses, times_us);
}

EXPORT_VALUE(nvmlDeviceGetRetiredPagesPendingStatus, u32, CAN_RETIRED_PAGES, retirement_pending)
