"""What a MIG instance is called where the driver's own UUID of it is not told.

Drivers before 470 called it `MIG-<UUID of the card>/<GPU instance>/<compute instance>` (dcgm-exporter 105), later ones
`MIG-<UUID>`, in which neither card nor numbers are. The first form is used here, with 0 for the compute instance:
what DCGM measures is the GPU instance's.
"""

import re
from typing import NamedTuple

# A card has at most 15 instances.
_OLD = re.compile(r"MIG-(GPU-.{1,60})/([0-9]{1,2})/([0-9]{1,2})", re.ASCII)


class MigName(NamedTuple):
    """An instance by its card and its numbers on it."""

    gpu_uuid: str
    gi_id: int
    ci_id: int


def mig_name(gpu_uuid: str, gi_id: int) -> str:
    """What the GPU instance of that number is called, of which no UUID is told."""
    return f"MIG-{gpu_uuid}/{gi_id}/0"


def read_mig_name(text: str) -> MigName | None:
    """The card and the numbers in a name, None where it does not say them."""
    found = _OLD.fullmatch(text)
    return MigName(found[1], int(found[2]), int(found[3])) if found else None
