"""What a tenant asks for."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from domain.errors import InputError
from domain.grants import GrantKind
from domain.slugs import check_slug
from domain.units import WHOLE_GPU_UNITS

LABELS_MAX = 32
LABEL_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """Capacity wanted by a tenant's project, from now until it is released.

    whole: `count` cards of one node. share: `milli_gpu` (1..999) of one card and `vram_bytes`, None being the
    same proportion of the card's. mig: one instance of `mig_profile` that exists. `model` (as the driver names
    it, in any case) and `sku` narrow the cards; None takes any. Raises InputError for anything else.
    """

    tenant: str
    project: str
    kind: GrantKind
    count: int = 1
    milli_gpu: int | None = None
    vram_bytes: int | None = None
    mig_profile: str | None = None
    model: str | None = None
    sku: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_slug("tenant", self.tenant)
        check_slug("project", self.project)
        check_labels(self.labels)
        if self.count < 1 or (self.count > 1 and self.kind is not GrantKind.WHOLE):
            raise InputError(f"cannot grant {self.count!r} of kind {self.kind}: ask for 1, or for whole cards")
        self._require("milli_gpu", self.milli_gpu, GrantKind.SHARE)
        self._require("mig_profile", self.mig_profile, GrantKind.MIG)
        if self.milli_gpu is not None and not 0 < self.milli_gpu < WHOLE_GPU_UNITS:
            raise InputError(f"cannot grant a share of {self.milli_gpu!r} milli-GPU: ask for 1 to 999, or a whole card")
        if self.vram_bytes is not None and (self.kind is not GrantKind.SHARE or self.vram_bytes < 1):
            raise InputError(f"cannot grant {self.vram_bytes!r} bytes: VRAM is asked for with a share, above 0")

    def _require(self, name: str, value: object, kind: GrantKind) -> None:
        if self.kind is kind and value is None:
            raise InputError(f"cannot grant the kind {kind} without {name}: give it, or ask for another kind")
        if self.kind is not kind and value is not None:
            raise InputError(
                f"cannot grant the kind {self.kind} with {name} {value!r}: leave it out, or ask for the kind {kind}"
            )

    def takes_model(self, model: str) -> bool:
        """Whether a card of this model is one that is wished for."""
        return self.model is None or self.model.lower() == model.lower()

    def takes_sku(self, sku: str) -> bool:
        """Whether a card of this SKU is one that is wished for; the wish may name the MIG profile with it."""
        if self.mig_profile is not None and self.sku == f"{sku}/{self.mig_profile}":
            return True
        return self.sku in (None, sku)

    @property
    def digest(self) -> str:
        """SHA-256 of everything asked: what an idempotency key is bound to."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Holding(StrEnum):
    """Which allocations are listed: those with a grant that has not ended, those without, or both."""

    OPEN = "open"
    ENDED = "ended"
    ALL = "all"


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise InputError for more labels, or longer ones, than anybody reads."""
    if len(labels) > LABELS_MAX:
        raise InputError(f"cannot keep {len(labels)} labels: use at most {LABELS_MAX}")
    for name, value in labels.items():
        for text in (name, value):
            if len(text) > LABEL_CHARACTERS_MAX or not text.isprintable():
                raise InputError(
                    f"cannot keep the label {name[:40]!r}={value[:40]!r}: use printable text of at most "
                    f"{LABEL_CHARACTERS_MAX} characters"
                )
        if not name:
            raise InputError(f"cannot keep a label without a name for {value[:40]!r}: write NAME=VALUE")
