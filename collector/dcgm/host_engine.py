"""The narrow door to DCGM's host engine: watch fields, and ask for the values that it has kept since an instant.

Every value has the engine's own time. Behind it are DCGM's bindings (`bindings.py`), and in tests an engine that needs
neither card nor DCGM. Fields are named by their numbers, which no version of DCGM has changed.
"""

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple, Protocol

from domain.errors import UnavailableError
from domain.samples import FieldState


class EntityGroup(IntEnum):
    """What a value can be of (`dcgm_fields.h`, DCGM_FE_*)."""

    GPU = 1
    GPU_INSTANCE = 4


class Entity(NamedTuple):
    """A card or a part of one, by the engine's number for it, which may change where the engine is restarted."""

    group: EntityGroup
    number: int


class Status(IntEnum):
    """What the engine answers (`dcgm_structs.h`, DCGM_ST_*), as far as it is told apart here."""

    OK = 0
    BAD_PARAMETER = -1
    NOT_SUPPORTED = -6
    TIMEOUT = -11
    UNKNOWN_FIELD = -13
    NO_DATA = -14
    STALE_DATA = -15
    NOT_WATCHED = -16
    NO_PERMISSION = -17
    GPU_IS_LOST = -18
    FUNCTION_NOT_FOUND = -20
    CONNECTION_NOT_VALID = -21
    GPU_NOT_SUPPORTED = -22
    REQUIRES_ROOT = -29
    MODULE_NOT_LOADED = -33
    IN_USE = -34
    PROFILING_NOT_SUPPORTED = -36
    PROFILING_LIBRARY_ERROR = -37
    PROFILING_MULTI_PASS = -38
    PAUSED = -54


# An older engine answers BAD_PARAMETER for a field that it does not know yet. Where another program profiles, the
# closed module of cards before Hopper cannot take the lock, and says LIBRARY_ERROR (DCGM 56, 62, 151).
_STATES = {
    Status.BAD_PARAMETER: FieldState.UNSUPPORTED,
    Status.NOT_SUPPORTED: FieldState.UNSUPPORTED,
    Status.UNKNOWN_FIELD: FieldState.UNSUPPORTED,
    Status.FUNCTION_NOT_FOUND: FieldState.UNSUPPORTED,
    Status.GPU_NOT_SUPPORTED: FieldState.UNSUPPORTED,
    Status.MODULE_NOT_LOADED: FieldState.UNSUPPORTED,
    Status.PROFILING_NOT_SUPPORTED: FieldState.UNSUPPORTED,
    Status.PROFILING_MULTI_PASS: FieldState.UNSUPPORTED,
    Status.NO_DATA: FieldState.NOT_READY,
    Status.NOT_WATCHED: FieldState.NOT_READY,
    Status.STALE_DATA: FieldState.STALE,
    Status.NO_PERMISSION: FieldState.NO_PERMISSION,
    Status.REQUIRES_ROOT: FieldState.NO_PERMISSION,
    Status.GPU_IS_LOST: FieldState.LOST,
    Status.IN_USE: FieldState.PROFILER_BUSY,
    Status.PAUSED: FieldState.PROFILER_BUSY,
    Status.PROFILING_LIBRARY_ERROR: FieldState.PROFILER_BUSY,
}


def state_of(status: int) -> FieldState:
    """What a status other than OK says of a field."""
    return _STATES.get(Status(status), FieldState.ERROR) if status in set(Status) else FieldState.ERROR


class EngineError(UnavailableError):
    """The host engine answers a question with a status that is not OK."""

    def __init__(self, question: str, status: int, words: str = "") -> None:
        """`question` is what was to be done, `words` what DCGM says of the status."""
        told = f"{status}: {words}" if words else str(status)
        super().__init__(f"cannot {question}: the DCGM host engine answers {told!r}; see the log of nv-hostengine")
        self.status = status

    @property
    def is_disconnected(self) -> bool:
        """Whether nothing can be asked by way of this connection any more."""
        return self.status in (Status.CONNECTION_NOT_VALID, Status.TIMEOUT)


class EngineInstance(NamedTuple):
    """A GPU instance of a card; `mig_uuid` is the driver's name of it, None where that is not told."""

    entity: Entity
    gi_id: int
    mig_uuid: str | None


class EngineCard(NamedTuple):
    """A card as the engine knows it; None, "" and 0 bytes are what it does not tell."""

    entity: Entity
    gpu_uuid: str
    nvml_index: int | None
    minor: int | None
    model: str
    pci_bus_id: str
    driver_version: str
    vbios_version: str
    vram_total_bytes: int
    vram_reserved_bytes: int
    instances: tuple[EngineInstance, ...]


class FieldValue(NamedTuple):
    """A value of a field, read at `time_us`; None where there is none, and then `status` or a blank says why.

    Numbers are as DCGM has them: blanks are among them, a `float` only where the field is a double.
    """

    entity: Entity
    field: int
    time_us: int
    value: int | float | str | None
    status: int


class HostEngine(Protocol):
    """A connection to a host engine. Not safe to use from several threads at once; any call may block for long."""

    def cards(self) -> tuple[EngineCard, ...]:
        """The cards there are now, with their GPU instances. Raises EngineError."""
        ...

    def watch(self, entities: Collection[Entity], fields: Collection[int], period_us: int, keep_s: float) -> None:
        """Have these fields read every `period_us` and kept for `keep_s`, beyond this connection, too.

        The first value comes within a period, or is blank. To watch the same again changes nothing. Raises
        EngineError, and then none of them is watched.
        """
        ...

    def values_since(self, since_us: int) -> list[FieldValue]:
        """Every value that is watched by this connection, kept, and of that instant or later; in order for each field.

        Where an entity or a field fails it has a value with that status. Raises EngineError where all do.
        """
        ...

    def close(self) -> None:
        """Let go of the connection; what is watched goes on, so that the next one finds what was kept."""
        ...
