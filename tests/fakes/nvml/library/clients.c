/* What the library writes down for tests: what each process has open, and how often each call was made. */
#include <unistd.h>

#include "driver.h"

/* The row of this process, taken if it is the first time; a row whose process is gone is kept for tests to see. */
static Client *own_client(void)
{
    const u32 pid = getpid();
    for (u32 i = 0; i < CLIENTS; i++) {
        u32 expected = 0;
        if (world->clients[i].pid == pid) return &world->clients[i];
        if (__atomic_compare_exchange_n(&world->clients[i].pid, &expected, pid, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return &world->clients[i];
        if (expected == pid) return &world->clients[i];
    }
    return NULL;
}

void count_open(Opened what, int by)
{
    Client *client = own_client();
    if (!client) return;
    u32 *counts[] = {&client->inits, &client->event_sets, &client->system_event_sets, &client->gpm_samples};
    __atomic_fetch_add(counts[what], by, __ATOMIC_RELAXED);
    if (what == AN_INIT && by > 0) __atomic_fetch_add(&client->inits_ever, by, __ATOMIC_RELAXED);
}

static u32 row_of(const char *name)
{
    for (u32 i = 0; i < TALLIES; i++) {
        Tally *tally = &world->tallies[i];
        if (!strncmp(tally->call, name, sizeof tally->call)) return i;
        /* Rows are taken by their first byte, so that two processes do not share one. */
        char empty = 0;
        if (__atomic_compare_exchange_n(&tally->call[0], &empty, name[0], 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            strncpy(tally->call + 1, name + 1, sizeof tally->call - 2);
            return i;
        }
    }
    return TALLIES - 1;
}

void count_call(Site *site)
{
    if (__atomic_load_n(&site->mapping, __ATOMIC_ACQUIRE) != mapping_number()) {
        site->row = row_of(site->name);
        __atomic_store_n(&site->mapping, mapping_number(), __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&world->tallies[site->row].calls, 1, __ATOMIC_RELAXED);
}
