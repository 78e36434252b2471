"""Cards and MIG instances, for operators."""

from fastapi import APIRouter

from allocator.bodies import CardBody, CardsBody, DeviceStateOrder
from allocator.device_store import adopt_instance, list_cards, set_state
from allocator.parts import BEARER, Asker, ServiceParts

router = APIRouter(prefix="/v1", tags=["devices"], dependencies=[BEARER])


@router.get("/devices")
def show_devices(asker: Asker, parts: ServiceParts) -> CardsBody:
    """Every card with what is free of it now."""
    with parts.database.read() as connection:
        return CardsBody(devices=[CardBody.of(card) for card in list_cards(connection, asker)])


@router.post("/devices/{gpu_uuid}/state", status_code=204)
def set_device_state(gpu_uuid: str, order: DeviceStateOrder, asker: Asker, parts: ServiceParts) -> None:
    """Put a card into service (ok), or out of it (draining, failed). Grants on it go on."""
    with parts.database.write() as connection:
        set_state(connection, asker, gpu_uuid, order.state, order.reason)


# Drivers before 470 put slashes into a MIG UUID.
@router.post("/mig-instances/{mig_uuid:path}/adopt", status_code=204)
def adopt_mig_instance(mig_uuid: str, asker: Asker, parts: ServiceParts) -> None:
    """Let a MIG instance that somebody else made be granted."""
    with parts.database.write() as connection:
        adopt_instance(connection, asker, mig_uuid)
