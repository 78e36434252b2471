"""What travels in requests and answers, as JSON. Instants are microseconds UTC; bytes are bytes."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, computed_field

from allocator.request import AllocationRequest
from allocator.stock import Card
from domain.capacity import DeviceState
from domain.grants import GrantKind
from domain.inventory import Device, Inventory, MigInstance
from domain.units import CARD_SMS_MAX, CARD_VRAM_BYTES_MAX, MIB, milli_gpu

# What a BIGINT and a float that counts whole things both hold.
_WHOLE_MAX = 2**53 - 1
_CARDS_MAX = 128

Whole = Annotated[StrictInt, Field(ge=0, le=_WHOLE_MAX)]
# More than any card has would make quantities of an hour that the ledger cannot hold.
CardBytes = Annotated[StrictInt, Field(ge=0, le=CARD_VRAM_BYTES_MAX)]
CardSms = Annotated[StrictInt, Field(ge=0, le=CARD_SMS_MAX)]
Text = Annotated[StrictStr, Field(max_length=256)]


class _Body(BaseModel):
    """A body in which an unknown key is an error: a misspelt wish must not be granted as another."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AllocationOrder(_Body):
    """A request for capacity. `tenant` may be left out by a tenant's own token."""

    tenant: Text | None = None
    project: Text
    kind: GrantKind
    count: Annotated[StrictInt, Field(ge=1, le=_CARDS_MAX, description="whole cards, all of one node")] = 1
    milli_gpu: Annotated[StrictInt, Field(ge=1, le=999)] | None = None
    vram_mib: Annotated[StrictInt, Field(ge=1, le=CARD_VRAM_BYTES_MAX // MIB)] | None = None
    mig_profile: Text | None = None
    model: Text | None = None
    sku: Text | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    def request(self, tenant: str) -> AllocationRequest:
        """The request on behalf of `tenant`."""
        return AllocationRequest(
            tenant=tenant,
            project=self.project,
            kind=self.kind,
            count=self.count,
            milli_gpu=self.milli_gpu,
            vram_bytes=None if self.vram_mib is None else self.vram_mib * MIB,
            mig_profile=self.mig_profile,
            model=self.model,
            sku=self.sku,
            labels=self.labels,
        )


class _Shown(BaseModel):
    """What is shown of a fact, by the names that the fact itself uses."""

    model_config = ConfigDict(from_attributes=True)


class GrantBody(_Shown):
    """The part of an allocation on one device."""

    ordinal: int
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

    @computed_field(description="thousandths of the device, rounded; compute_units is exact")  # type: ignore[prop-decorator] # mypy knows no decorated property
    @property
    def milli_gpu(self) -> int:
        """Thousandths of the device, rounded; `compute_units` is exact."""
        return milli_gpu(self.compute_units, self.compute_units_total)


class AllocationBody(_Shown):
    """An allocation with its grants."""

    allocation: str
    tenant: str
    project: str
    source: str
    source_id: str | None
    labels: dict[str, str]
    created_us: int
    is_open: bool
    grants: list[GrantBody]


class AllocationPageBody(_Shown):
    """Some allocations, newest first; `next_cursor` asks for those after them, null at the end."""

    allocations: list[AllocationBody]
    next_cursor: str | None


class CardBody(BaseModel):
    """A card with what is free of it; `free_profiles` are those of MIG instances nobody holds."""

    gpu_uuid: str
    node: str
    device_index: int
    model: str
    sku: str
    mig_enabled: bool
    state: DeviceState
    state_reason: str
    is_silent: bool
    compute_units: int
    compute_units_free: int
    vram_usable_bytes: int
    vram_free_bytes: int
    grants: int
    free_profiles: list[str]

    @classmethod
    def of(cls, card: Card) -> Self:
        """The body of a card."""
        return cls(
            gpu_uuid=card.gpu_uuid,
            node=card.node,
            device_index=card.device_index,
            model=card.model,
            sku=card.sku,
            mig_enabled=card.mig_enabled,
            state=card.state,
            state_reason=card.state_reason,
            is_silent=card.is_silent,
            compute_units=card.compute_units,
            compute_units_free=card.free.compute_units,
            vram_usable_bytes=card.vram_usable_bytes,
            vram_free_bytes=card.free.vram_bytes,
            grants=len(card.takes),
            free_profiles=[each.profile for each in card.free_instances],
        )


class CardsBody(BaseModel):
    """Every card."""

    devices: list[CardBody]


class DeviceStateOrder(_Body):
    """The state an operator puts a card into."""

    state: DeviceState
    reason: Text


class MigInstanceReport(_Body):
    """A MIG instance as a node reports it."""

    uuid: Text
    gi_id: Whole
    profile: Text
    start: Whole
    slices: Whole
    sm_count: Annotated[CardSms, Field(ge=1)]
    vram_bytes: Annotated[CardBytes, Field(ge=1)]
    generation: Whole = 1

    def instance(self) -> MigInstance:
        """The fact."""
        return MigInstance(**dict(self))


class DeviceReport(_Body):
    """A card as a node reports it."""

    uuid: Text
    index: Whole
    model: Text
    vram_total_bytes: CardBytes
    vram_reserved_bytes: CardBytes
    mig_enabled: StrictBool = False
    sm_count: CardSms | None = None
    pci_bus_id: Text = ""
    driver_version: Text = ""
    minor: Whole | None = None
    architecture: Text = ""
    vbios_version: Text = ""
    numa_node: Whole | None = None
    instances: Annotated[list[MigInstanceReport], Field(max_length=16)] = Field(default_factory=list)

    def device(self) -> Device:
        """The fact."""
        return Device(**{**dict(self), "instances": tuple(each.instance() for each in self.instances)})


class InventoryReport(_Body):
    """Every card of a node at the second it was observed."""

    observed_s: Whole
    devices: Annotated[list[DeviceReport], Field(max_length=_CARDS_MAX)]

    def inventory(self) -> Inventory:
        """The fact."""
        return Inventory(self.observed_s, tuple(each.device() for each in self.devices))


class InventoryAnswer(_Shown):
    """Whether the report was taken, and the instant of the one that counts now."""

    is_taken: bool
    held_us: int


class HeartbeatAnswer(BaseModel):
    """The database's clock, by which a node measures its skew."""

    now_us: int
