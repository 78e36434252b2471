"""What nodes report of themselves."""

from fastapi import APIRouter

from allocator.bodies import HeartbeatAnswer, InventoryAnswer, InventoryReport
from allocator.inventory_store import take_inventory
from allocator.node_store import record_heartbeat
from allocator.parts import BEARER, Asker, ServiceParts

router = APIRouter(prefix="/v1/nodes", tags=["nodes"], dependencies=[BEARER])


@router.put("/{node:path}/inventory")
def put_inventory(node: str, report: InventoryReport, asker: Asker, parts: ServiceParts) -> InventoryAnswer:
    """Report every card of the node, with the second of observation, by the node's own token.

    A report that is no newer than the one held changes nothing, so a report may be sent again at any time.
    """
    with parts.database.write() as connection:
        outcome = take_inventory(
            connection, asker, node, report.inventory(), skus=parts.skus, share_grain=parts.share_grain
        )
    return InventoryAnswer(is_taken=outcome.is_taken, held_us=outcome.held_us)


@router.put("/{node:path}/heartbeat")
def put_heartbeat(node: str, asker: Asker, parts: ServiceParts) -> HeartbeatAnswer:
    """Say that the node lives, and learn the time."""
    with parts.database.write() as connection:
        return HeartbeatAnswer(now_us=record_heartbeat(connection, asker, node))
