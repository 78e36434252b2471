"""A tenant's right to a part of a device, and for how long."""

from dataclasses import dataclass
from enum import StrEnum

from domain.period import Period

# The end of a grant that is still open, for interval arithmetic: later than any instant we meet.
OPEN_END_US = 2**62


class GrantKind(StrEnum):
    """How a device is divided."""

    WHOLE = "whole"
    MIG = "mig"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Grant:
    """The part of an allocation on one device over [start_us, end_us).

    `end_us` is None while the grant is open. `gpu_uuid` is None where the device is unknown (record-only: such a
    grant is priced by its SKU, has no coverage and stands outside conservation). `compute_units` of
    `compute_units_total` are the device's own integers; `vram_bytes` is what the tenant may use. `source` is who
    recorded the allocation, gputab's own service or an import by its name; `source_id` is the source's own name for it,
    None where it has none.
    """

    allocation: str
    ordinal: int
    tenant: str
    project: str
    node: str
    gpu_uuid: str | None
    mig_uuid: str | None
    kind: GrantKind
    model: str
    sku: str
    compute_units: int
    compute_units_total: int
    vram_bytes: int
    start_us: int
    end_us: int | None
    source: str = "service"
    source_id: str | None = None

    @property
    def period(self) -> Period:
        """The grant's interval, an open one reaching to the end of time."""
        return Period(self.start_us, OPEN_END_US if self.end_us is None else self.end_us)

    @property
    def is_record_only(self) -> bool:
        """True where no device is known for the grant."""
        return self.gpu_uuid is None
