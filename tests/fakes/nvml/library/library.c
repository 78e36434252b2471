/* The mapped state, and how every call begins and ends. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

/* A writer that died half-way must not hang those who read. */
#define PATIENCE_US 1000000

World *world;
static u64 generation_at_load;
static atomic_uint mappings;
static atomic_int inits;
static atomic_ullong load_at_init;

static u64 monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void rest_us(u64 us)
{
    struct timespec rest = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&rest, NULL);
}

u64 mapping_number(void) { return mappings; }

/* Take the world of that file; 0, or -1 where it is none. A file that was open is replaced where it lies, so that a
 * thread still in a call sees the new one and nothing that is unmapped. */
EXPORT int fake_open(const char *path)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    if (file < 0) return -1;
    if (fstat(file, &about) || (u64)about.st_size != sizeof(World)) { close(file); return -1; }
    void *mapped = mmap(world, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED | (world ? MAP_FIXED : 0), file, 0);
    close(file);
    if (mapped == MAP_FAILED) return -1;
    world = mapped;
    if (world->magic != MAGIC || world->bytes != sizeof(World)) return -1;
    generation_at_load = world->generation;
    inits = 0;
    mappings++;
    forget_handles();
    forget_event_sets();
    return 0;
}

__attribute__((constructor)) static void open_named_state(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    if (path) fake_open(path);
}

/* What an unloaded or exchanged driver answers to everything; SUCCESS where it is there. */
int driver_code(void)
{
    if (!world) return 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
    if (world->generation != generation_at_load) return LIB_RM_VERSION_MISMATCH;
    return world->driver_code;
}

int begin(Site *site, Handle handle, u32 kinds, Call *call)
{
    memset(call, 0, sizeof *call);
    call->name = site->name;
    call->slot = call->row = NONE;
    const int is_init = !strncmp(site->name, "nvmlInit", 8);
    if (!world && is_init) open_named_state();
    if (world) count_call(site);
    const int gone = driver_code();
    if (gone != SUCCESS) return gone;
    if (!is_init && (!inits || load_at_init != world->load)) return UNINITIALIZED;
    if (kinds) {
        const int invalid = resolve(handle, call);
        if (invalid != SUCCESS) return invalid;
        if (call->card->lost_code) return call->card->lost_code;
    }
    const int failed = fault_code(call, NONE);
    if (failed != SUCCESS) return failed;
    if (kinds && !(call->kind & kinds)) return call->kind == MIG_DEVICE ? NOT_SUPPORTED : INVALID_ARGUMENT;
    return SUCCESS;
}

int end(const Call *call, void *out, size_t bytes)
{
    if (call->garbage) fill(call->garbage, out, bytes);
    return SUCCESS;
}

u64 look_begin(void)
{
    u64 sequence, began = 0;
    while ((sequence = __atomic_load_n(&world->sequence, __ATOMIC_ACQUIRE)) & 1) {
        if (!began) began = monotonic_us();
        if (monotonic_us() - began > PATIENCE_US) break;
        rest_us(20);
    }
    return sequence + 2; /* never 0, and never what it is while somebody writes */
}

u64 look_again(u64 look)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&world->sequence, __ATOMIC_RELAXED) + 2 == look ? 0 : look_begin();
}

int text(const Call *call, const char *from, size_t room, char *to, u32 length)
{
    const size_t bytes = strnlen(from, room) + 1;
    if (!to) return INVALID_ARGUMENT;
    if (length < bytes) return INSUFFICIENT_SIZE;
    READING { memcpy(to, from, bytes); }
    to[bytes - 1] = 0;
    return end(call, to, bytes - 1);
}

EXPORT int nvmlInitWithFlags(u32 flags)
{
    (void)flags;
    BEGIN(NULL, NOTHING);
    if (!inits || load_at_init != world->load) {
        /* After the driver was loaded again nothing of the time before is open any more. */
        count_open(AN_INIT, -inits);
        inits = 0;
        load_at_init = world->load;
        forget_handles();
    }
    inits++;
    count_open(AN_INIT, 1);
    return SUCCESS;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ALIAS(nvmlInit, nvmlInit_v2, void);

EXPORT int nvmlShutdown(void)
{
    static Site site = {__func__, 0, 0};
    Call call = {.name = site.name, .slot = NONE, .row = NONE};
    if (!world || !inits) return UNINITIALIZED;
    count_call(&site);
    /* Even of a driver that is gone the process lets go. */
    inits--;
    count_open(AN_INIT, -1);
    if (!inits) forget_handles();
    return fault_code(&call, NONE);
}
