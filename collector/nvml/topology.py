"""How the cards of a node reach each other: the way through the PCI tree, peer access, and the NVLinks beside it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any, NamedTuple

from collector.nvml.driver import Driver, DriverError
from collector.nvml.values.nvlink import active_links
from domain.samples import FieldState

# nvml.h, nvmlGpuTopologyLevel_t, in the words of the header.
_LEVELS = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
# nvml.h, nvmlGpuP2PCapsIndex_t (the bindings' name for it is a tuple), and nvmlGpuP2PStatus_t in its words.
_P2P_READ = 0
_P2P_STATUS = {
    0: "ok",
    1: "chipset_not_supported",
    2: "gpu_not_supported",
    3: "topology_not_supported",
    4: "disabled_by_regkey",
    5: "not_supported",
    6: "unknown",
}
# nvml.h, nvmlIntNvLinkDeviceType_t.
_SWITCH = 2


class TopologyLink(NamedTuple):
    """How one card reaches another. `links` are the NVLinks between them, by way of switches too; 0 for none.

    `peer_access` is `ok` where it can read the other's memory itself, else why not; "" where the driver does not tell.
    """

    gpu_uuid: str
    peer_uuid: str
    level: str
    peer_access: str
    links: int


# Domain, bus and device: the texts that drivers make of them differ in zeros and case.
_Place = tuple[int, int, int]


class _Ends(NamedTuple):
    """Where a card's links end: how many at each card, by its place, and how many at switches."""

    at_cards: Counter[_Place]
    at_switches: int


def topology(driver: Driver, handles_by_uuid: Mapping[str, Any]) -> Iterator[TopologyLink]:
    """Each pair of cards, in both directions; for once a minute, since it is some hundreds of calls.

    A pair whose way the driver does not tell is left out, as are those of a card that is lost. Raises DriverGoneError.
    """
    places: dict[str, _Place] = {}
    ends: dict[str, _Ends] = {}
    for uuid, handle in handles_by_uuid.items():
        with suppress(DriverError):
            places[uuid] = _place(driver.ask("DeviceGetPciInfo", handle))
            ends[uuid] = _ends(driver, handle)
    for one, other in combinations(ends, 2):
        pair = handles_by_uuid[one], handles_by_uuid[other]
        try:
            level = driver.ask("DeviceGetTopologyCommonAncestor", *pair)
            there, back = _peer_access(driver, *pair), _peer_access(driver, *reversed(pair))
        except DriverError:
            continue
        switched = min(ends[one].at_switches, ends[other].at_switches)
        links = ends[one].at_cards[places[other]] or switched
        name = _LEVELS.get(level, str(level))
        yield TopologyLink(one, other, name, there, links)
        yield TopologyLink(other, one, name, back, links)


def _peer_access(driver: Driver, handle: Any, peer: Any) -> str:
    status = driver.answer("DeviceGetP2PStatus", handle, peer, _P2P_READ)
    if isinstance(status, FieldState):
        return ""
    return _P2P_STATUS.get(status, str(status))


def _ends(driver: Driver, handle: Any) -> _Ends:
    at_cards: Counter[_Place] = Counter()
    at_switches = 0
    for link in active_links(driver, handle):
        if driver.fact("DeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
            at_switches += 1
            continue
        remote = driver.fact("DeviceGetNvLinkRemotePciInfo", handle, link)
        if remote is not None:
            at_cards[_place(remote)] += 1
    return _Ends(at_cards, at_switches)


def _place(pci: Any) -> _Place:
    return pci.domain, pci.bus, pci.device
