"""MIG instances that were destroyed, which is not the same as silent: a card is cut anew while tenants come and go.

Every minute a collector says which cards its node has, and how each is cut. A card that is lost is among them, as it
was last seen.
"""

from alerts.card_templates import REMEMBERED
from domain.series import DEVICE, GPU_INFO, MIG_INFO

# The minute, and what a reading may be late.
TOLD = "90s"


def destroyed_instances(selector: str = "") -> str:
    """PromQL, in parentheses, for the instances of the last day that their card is told of without, by their labels.

    `selector` is what stands between braces. Within 90 s of its end an instance is not among them.
    """
    known = f"max by ({', '.join(DEVICE)}) (last_over_time({MIG_INFO.name}{{{selector}}}[{REMEMBERED}]))"
    still = f"last_over_time({MIG_INFO.name}{{{selector}}}[{TOLD}])"
    card = f"last_over_time({GPU_INFO.name}{{{selector}}}[{TOLD}])"
    return f"({known} unless on ({', '.join(DEVICE)}) {still} and on (node, gpu_uuid) {card})"
