"""Where readings come from: the one interface between the cards and the rest of the collector."""

from collections.abc import Callable
from typing import Protocol

from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading


class SourceGoneError(UnavailableError):
    """The driver is gone, and with it every card: no read of this process can succeed, only those of a new one."""


class NewProcessNeededError(SourceGoneError):
    """This process has an old library of the driver, which only a new process can exchange for the one of now."""


class DriverGivenUpError(SourceGoneError):
    """The driver has been gone for as long as this process was told to wait for it: whoever supervises it is to act."""


class Source(Protocol):
    """The cards of one node.

    `read` is called from one thread per card, for different cards at once, and may block as long as the driver
    does. A reading says what the card said and nothing else: None where the card cannot tell. `name` is what the log
    calls it.
    """

    name: str

    def inventory(self) -> tuple[Device, ...]:
        """Every card with its MIG instances. A lost card stays in it, as it was last seen.

        Raises UnavailableError where the driver gives no inventory, SourceGoneError where it never will.
        """
        ...

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the card says in that second: the card itself first, then each of its MIG instances.

        A lost card and its instances say GPU_UP 0 and nothing more. `owners` of a reading sum to its used memory,
        unless the driver contradicts itself, which `ranges` refuses; where MIG is on, owners are told per instance
        and the card's own reading has none.

        Raises UnavailableError where the card gave no answer that means anything, SourceGoneError where none will.
        """
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...


class ScriptedSource:
    """A source for tests: `answers` says what a card says in a second, and may raise or block as a driver does."""

    name = "script"

    def __init__(self, devices: tuple[Device, ...], answers: Callable[[str, int], list[DeviceReading]]) -> None:
        """`devices` may be exchanged later, as cards come and go."""
        self.devices = devices
        self._answers = answers

    def inventory(self) -> tuple[Device, ...]:
        """The devices of now."""
        return self.devices

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the script says."""
        return self._answers(gpu_uuid, second_s)

    def close(self) -> None:
        """Nothing is held open."""
