/* The driver's clocks: the machine's own, or one that tests set. */
#include <time.h>

#include "driver.h"

static u64 read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (u64)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

u64 now_us(void) { return world->now_us ? world->now_us : read_us(CLOCK_REALTIME) + world->shift_us; }

/* The epoch microsecond of boot: what stamps of CLOCK_BOOTTIME count from. */
u64 boot_us(void)
{
    if (world->boot_us) return world->boot_us;
    return read_us(CLOCK_REALTIME) - read_us(CLOCK_BOOTTIME);
}

EXPORT u64 fake_now_us(void) { return now_us(); }
