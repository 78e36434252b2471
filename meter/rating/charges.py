"""A charge: money for one grant x dimension x rate x window."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Charge:
    """One row of the ledger; every field but the first eight follows from them and the evidence.

    `node` is '' for a grant without a device. `rate_id` None is unpriced: the quantity is kept and the amount 0.
    The four gap classes sum to `granted_seconds`; free ones are not in `quantity`. `covered_seconds` had a valid
    sample of what the dimension measures, and is None where there is no device. `quantity` counts
    compute-unit-seconds of which `quantity_whole` make a GPU-second, or byte-seconds with `quantity_whole` 1.
    """

    node: str
    window_start_us: int
    allocation: str
    ordinal: int
    dimension: str
    rate_id: str | None
    billing_date: str
    tenant: str
    project: str
    sku: str
    granted_seconds: int
    measured_seconds: int
    bridged_seconds: int
    on_record_seconds: int
    free_seconds: int
    covered_seconds: int | None
    quantity: int
    quantity_whole: int
    currency: str
    amount_nano: int

    @property
    def charge_id(self) -> str:
        """Hash of the natural key, so that the same charge has the same name whoever rates it and when."""
        key = (
            self.node,
            str(self.window_start_us),
            self.allocation,
            str(self.ordinal),
            self.dimension,
            self.rate_id or "",
            self.billing_date,
        )
        return f"ch_{hashlib.sha256(chr(31).join(key).encode()).hexdigest()[:24]}"
