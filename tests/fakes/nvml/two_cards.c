/* A driver whose library finds two RTX 4090 when it is loaded: for processes that no test can reach into. */
#include "fake_nvml.c"

static void add(int index, const char *uuid)
{
    Device *card = fake_card(index, uuid, "NVIDIA GeForce RTX 4090");
    fake_set(card, "total", 24564ULL << 20);
    fake_set(card, "reserved", 339ULL << 20);
    fake_set(card, "used", 1ULL << 30);
    fake_set(card, "busy_percent", 40);
    fake_set(card, "milliwatts", 210000);
    fake_set(card, "millijoules", 5000000);
    fake_set(card, "celsius", 55);
    fake_set(card, "sm_megahertz", 2520);
    fake_set(card, "memory_megahertz", 10501);
}

__attribute__((constructor)) static void find_cards(void)
{
    add(0, "GPU-00000000-0000-0000-0000-000000000000");
    add(1, "GPU-11111111-1111-1111-1111-111111111111");
}
