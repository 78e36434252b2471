/* Events of cards (XID, ECC, MIG) and of the driver (bind, unbind): waited for, and each told once to each set. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define SETS 64
/* How soon a waiting call sees what a process without the library wrote. */
#define SLICE_MS 50
#define EVENT_DATA_BYTES 32

typedef struct { Handle device; u64 type, data; u32 gi_id, ci_id; } EventData;
typedef struct { u64 type; u32 gpu_id; } SystemEventData;
typedef struct { u32 version; void *set; } SystemSetRequest;
typedef struct { u32 version; u64 types; void *set; } SystemRegisterRequest;
typedef struct { u32 version, timeout_ms; void *set; SystemEventData *data; u32 room, count; } SystemWaitRequest;
typedef struct { u32 number, is_system; u64 seen, types[CARDS]; } EventSet;

static EventSet sets[SETS];
static u32 last_number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Let every call that waits for the world look at it again. */
EXPORT void fake_wake(void)
{
    __atomic_fetch_add(&world->wake, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &world->wake, FUTEX_WAKE, SETS * 2, NULL, NULL, 0);
}

static void wait_ms(u32 seen, u32 milliseconds)
{
    struct timespec slice = {0, milliseconds * 1000000l};
    syscall(SYS_futex, &world->wake, FUTEX_WAIT, seen, &slice, NULL, 0);
}

static void *handle_of(const EventSet *set)
{
    return (void *)((u64)set->number << 8 | (u64)(set - sets) | 1ull << 60);
}

/* NULL where it was freed. Call with the lock held. */
static EventSet *set_of(const void *handle, u32 is_system)
{
    EventSet *set = &sets[(u64)handle % SETS];
    return set->number && handle_of(set) == handle && set->is_system == is_system ? set : NULL;
}

/* Of another world; who still waits for one of them is told that it is invalid. */
void forget_event_sets(void)
{
    pthread_mutex_lock(&lock);
    for (u32 i = 0; i < SETS; i++) sets[i].number = 0;
    pthread_mutex_unlock(&lock);
}

static void *create(u32 is_system)
{
    void *made = NULL;
    pthread_mutex_lock(&lock);
    for (u32 i = 0; i < SETS && !made; i++) {
        if (sets[i].number) continue;
        sets[i] = (EventSet){.number = ++last_number, .is_system = is_system, .seen = world->event_count};
        made = handle_of(&sets[i]);
    }
    pthread_mutex_unlock(&lock);
    if (made) count_open(is_system ? A_SYSTEM_EVENT_SET : AN_EVENT_SET, 1);
    return made;
}

static int release(const void *handle, u32 is_system)
{
    pthread_mutex_lock(&lock);
    EventSet *set = set_of(handle, is_system);
    if (set) set->number = 0;
    pthread_mutex_unlock(&lock);
    if (!set) return INVALID_ARGUMENT;
    count_open(is_system ? A_SYSTEM_EVENT_SET : AN_EVENT_SET, -1);
    fake_wake();
    return SUCCESS;
}

/* Ask for more types, of a card or of the driver; what happened before is not told. */
static int add_types(const void *handle, u32 is_system, u32 slot, u64 types)
{
    pthread_mutex_lock(&lock);
    EventSet *set = set_of(handle, is_system);
    if (set) set->types[slot] |= types;
    pthread_mutex_unlock(&lock);
    return set ? SUCCESS : INVALID_ARGUMENT;
}

/* The next event of a set: SUCCESS, TIMEOUT where there is none yet, INVALID_ARGUMENT where the set was freed. */
static int next_event(const void *handle, u32 is_system, Event *found)
{
    int code = TIMEOUT;
    pthread_mutex_lock(&lock);
    EventSet *set = set_of(handle, is_system);
    if (!set) code = INVALID_ARGUMENT;
    while (set && code == TIMEOUT && set->seen < world->event_count) {
        /* What fell out of the ring before it was asked for is lost. */
        if (world->event_count - set->seen > EVENTS) set->seen = world->event_count - EVENTS;
        Event event;
        READING event = world->events[set->seen % EVENTS];
        set->seen++;
        if (event.is_system != is_system || event.slot >= CARDS) continue;
        if (!(set->types[is_system ? 0 : event.slot] & event.type)) continue;
        *found = event;
        code = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static u64 monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int wait_for(const void *handle, u32 is_system, u32 timeout_ms, Event *found)
{
    const u64 until_ms = monotonic_ms() + timeout_ms;
    for (;;) {
        const u32 seen = __atomic_load_n(&world->wake, __ATOMIC_ACQUIRE);
        const int gone = driver_code(), code = gone != SUCCESS ? gone : next_event(handle, is_system, found);
        const u64 now_ms = monotonic_ms();
        if (code != TIMEOUT || now_ms >= until_ms) return code;
        wait_ms(seen, until_ms - now_ms < SLICE_MS ? until_ms - now_ms : SLICE_MS);
    }
}

EXPORT int nvmlEventSetCreate(void **set)
{
    BEGIN(NULL, NOTHING);
    *set = create(0);
    return *set ? SUCCESS : OUT_OF_MEMORY;
}

/* It can be done when the driver is gone, too. */
EXPORT int nvmlEventSetFree(void *set)
{
    static Site site = {__func__, 0, 0};
    if (!world) return UNINITIALIZED;
    count_call(&site);
    return release(set, 0);
}

EXPORT_VALUE(nvmlDeviceGetSupportedEventTypes, u64, CAN_EVENTS, supported_events)

EXPORT int nvmlDeviceRegisterEvents(Handle handle, u64 types, void *set)
{
    BEGIN(handle, CARD);
    NEEDS(CAN_EVENTS);
    if (types & ~call.card->supported_events) return NOT_SUPPORTED;
    return add_types(set, 0, call.slot, types);
}

EXPORT int nvmlEventSetWait_v2(void *set, EventData *data, u32 timeout_ms)
{
    BEGIN(NULL, NOTHING);
    Event event;
    const int code = wait_for(set, 0, timeout_ms, &event);
    if (code != SUCCESS) return code;
    *data = (EventData){card_handle(event.slot), event.type, event.data, event.gi_id, event.ci_id};
    END(&data->data, sizeof data->data);
}
ALIAS(nvmlEventSetWait, nvmlEventSetWait_v2, void *, EventData *, u32);

EXPORT int nvmlSystemEventSetCreate(SystemSetRequest *request)
{
    BEGIN(NULL, NOTHING);
    request->set = create(1);
    return request->set ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int nvmlSystemEventSetFree(SystemSetRequest *request)
{
    static Site site = {__func__, 0, 0};
    if (!world) return UNINITIALIZED;
    count_call(&site);
    return release(request->set, 1);
}

EXPORT int nvmlSystemRegisterEvents(SystemRegisterRequest *request)
{
    BEGIN(NULL, NOTHING);
    return add_types(request->set, 1, 0, request->types);
}

EXPORT int nvmlSystemEventSetWait(SystemWaitRequest *request)
{
    BEGIN(NULL, NOTHING);
    Event event;
    request->count = 0;
    if (!request->data || !request->room) return INVALID_ARGUMENT;
    const int code = wait_for(request->set, 1, request->timeout_ms, &event);
    if (code != SUCCESS) return code;
    const Card *card = &world->cards[event.slot];
    request->data[0] = (SystemEventData){event.type, card->pci_domain << 16 | card->pci_bus << 8 | card->pci_device};
    request->count = 1;
    return SUCCESS;
}
