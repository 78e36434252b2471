/* A wall clock that can be set while a program runs: preloaded, it adds what the file of SHIFTED_CLOCK holds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *shift_seconds;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *shift_seconds, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) shift_seconds = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real) begin();
    int code = real(clock, now);
    if (code == 0 && clock == CLOCK_REALTIME && shift_seconds) now->tv_sec += *shift_seconds;
    return code;
}
