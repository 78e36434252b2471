/* A driver with two RTX 4090 that is unloaded under the process when it is sent SIGUSR1. */
#include <signal.h>

#include "two_cards.c"

static void leave(int number)
{
    (void)number;
    fake_fault("", NULL, 9); /* NVML_ERROR_DRIVER_NOT_LOADED */
}

__attribute__((constructor)) static void wait_for_signal(void) { signal(SIGUSR1, leave); }
