/* How cards are joined: NVLink, the way through the PCI tree, peer access. */
#include <stdio.h>

#include "driver.h"

#define TOPOLOGY_INTERNAL 0
#define P2P_CAPABILITIES 5

#define LINK(handle, number)                                                                                           \
    BEGIN(handle, CARD);                                                                                               \
    NEEDS(CAN_NVLINK);                                                                                                 \
    if ((number) >= LINKS) return INVALID_ARGUMENT;                                                                    \
    const Link *link = &call.card->links[number];                                                                      \
    if (!link->exists) return NOT_SUPPORTED

EXPORT int nvmlDeviceGetNvLinkState(Handle handle, u32 number, u32 *is_active)
{
    LINK(handle, number);
    READING *is_active = link->active;
    END(is_active, sizeof *is_active);
}

EXPORT int nvmlDeviceGetNvLinkVersion(Handle handle, u32 number, u32 *version)
{
    LINK(handle, number);
    READING *version = link->version;
    END(version, sizeof *version);
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Handle handle, u32 number, u32 *type)
{
    LINK(handle, number);
    READING *type = link->remote_type;
    END(type, sizeof *type);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, u32 number, PciInfo *info)
{
    LINK(handle, number);
    if (!link->active) return NOT_SUPPORTED;
    READING {
        memset(info, 0, sizeof *info);
        memcpy(info->bus_id, link->remote_bus_id, sizeof info->bus_id);
    }
    info->bus_id[sizeof info->bus_id - 1] = 0;
    sscanf(info->bus_id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    END(info, sizeof *info);
}
ALIAS(nvmlDeviceGetNvLinkRemotePciInfo, nvmlDeviceGetNvLinkRemotePciInfo_v2, Handle, u32, PciInfo *);

EXPORT int nvmlDeviceGetNvLinkErrorCounter(Handle handle, u32 number, u32 kind, u64 *count)
{
    LINK(handle, number);
    if (kind >= LINK_ERRORS) return INVALID_ARGUMENT;
    READING *count = link->errors[kind];
    END(count, sizeof *count);
}

/* A call about two cards: the faults of both strike it. */
static int second_card(Handle handle, Call *call)
{
    const int invalid = resolve(handle, call);
    if (invalid != SUCCESS) return invalid;
    if (call->kind != CARD) return INVALID_ARGUMENT;
    return card_fault_code(call);
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(Handle first, Handle second, u32 *level)
{
    BEGIN(first, CARD);
    Call other = {.name = call.name, .slot = NONE, .row = NONE};
    const int code = second_card(second, &other);
    if (code != SUCCESS) return code;
    READING *level = call.slot == other.slot ? TOPOLOGY_INTERNAL : call.card->topology[other.slot];
    END(level, sizeof *level);
}

EXPORT int nvmlDeviceGetP2PStatus(Handle first, Handle second, u32 capability, u32 *status)
{
    BEGIN(first, CARD);
    Call other = {.name = call.name, .slot = NONE, .row = NONE};
    const int code = second_card(second, &other);
    if (code != SUCCESS) return code;
    if (capability >= P2P_CAPABILITIES) return INVALID_ARGUMENT;
    READING *status = call.card->p2p[other.slot];
    END(status, sizeof *status);
}
