"""Real cards as a `Source`: the driver is opened once and held, and each card's failure is its own."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from collector.call_times import CallTimes
from collector.kernel_log import KernelLog, PciAddress, pci_address
from collector.node_state import NodeState
from collector.nvml.absences import Absences
from collector.nvml.card_owners import OwnedProcess
from collector.nvml.card_watch import CardWatch
from collector.nvml.driver import CardLostError, DriverGoneError
from collector.nvml.driver_life import DriverAwayError, DriverLife, DriverState, Opened
from collector.nvml.events import XidWatch
from collector.nvml.known_cards import KnownCard, KnownCards
from collector.nvml.node_map import NodeMap
from collector.nvml.open_card import CardChanged, OpenCard
from collector.nvml.values.counters import CardCounters
from collector.own_metrics import OwnValue
from collector.owners.processes import ProcessTable
from collector.quiesce import Holding, QuiesceDesk
from collector.source import SourceGoneError
from collector.xid_events import XidEvents
from domain.clock import Clock
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading, FieldState
from domain.series import (
    COLLECTOR_CAPPED_RATIOS,
    COLLECTOR_COUNTER_RESETS,
    COLLECTOR_DRIVER_OPENED,
    COLLECTOR_DRIVER_STATE,
    COLLECTOR_REFUSED_PROCESS_SAMPLES,
    COLLECTOR_UNPROVED_PROCESSES,
)

# The cards are to be let go of within a second of being asked to.
_TEND_SECONDS = 0.2
# Cards that the node knows are looked at for so long before they are read.
_FIRST_LOOK_SECONDS = 0.5
# As long as a driver that hangs is waited for at the end.
_END_SECONDS = 1.0


class NvmlSource:
    """A `Source` of the machine's own cards.

    Before `start`, `inventory` asks the driver; then threads of its own look at the cards, tend the driver, and listen
    for XID errors, and it answers at once.
    """

    name = "nvml"

    def __init__(
        self,
        clock: Clock,
        calls: CallTimes,
        processes: ProcessTable,
        state: NodeState,
        *,
        quiesced: bool = False,
        give_up_s: int | None = None,
    ) -> None:
        """`processes` proves owners, `state` is what the node remembers; `quiesced`: do not open the driver yet.

        Once the driver has been gone for `give_up_s` each read raises DriverGivenUpError; None: it is waited for.

        Raises DriverGoneError where there is no driver, unless the node has had cards: then they are lost.
        """
        self._clock = clock
        self._processes = processes
        self._state = state
        self._life = DriverLife(calls, self._release, give_up_s)
        self._known = KnownCards(self._life, state)
        self._map = NodeMap(self._life, self._known.cards)
        self._watch = CardWatch(self._known, self._map, clock.monotonic_s)
        self._xids = XidEvents(state, clock.monotonic_s)
        self._absences = Absences()
        self._open: dict[str, OpenCard] = {}
        self._lost: set[str] = set()
        self._counters: defaultdict[str, CardCounters] = defaultdict(CardCounters)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: Exception | None = None
        if quiesced:
            self._life.start_quiesced()
            return
        try:
            self._life.open()
        except DriverGoneError:
            if not self._known.devices:
                raise

    def start(self, desk: QuiesceDesk, kernel_log: Path) -> None:
        """Begin to live: hear at `desk` when to let go of the cards, and at `kernel_log` of XID errors.

        Raises UnavailableError where no card was ever known, and the driver gives no inventory.
        """
        knows_cards = bool(self._known.devices)
        if knows_cards:
            self._watch.look_soon()
        else:
            with suppress(DriverAwayError):
                self._known.look()
        now_s = self._clock.monotonic_s
        tasks: dict[str, Callable[[], None]] = {
            "driver": partial(self._tend, desk),
            "look at cards": partial(self._watch.run, self._stop),
            "xid events": partial(XidWatch(self._life, self._xids, self._known.cards, now_s).run, self._stop),
            "kernel log": partial(KernelLog(kernel_log, self._xids, self._addresses).run, self._stop),
        }
        for name, task in tasks.items():
            thread = threading.Thread(target=self._guard, args=(task,), name=f"nvml {name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        if knows_cards:
            # And no longer: one that hangs is read when it has answered.
            self._watch.looked.wait(_FIRST_LOOK_SECONDS)

    @property
    def changed(self) -> threading.Event:
        """Set where another inventory than before was found."""
        return self._watch.changed

    def inventory(self) -> tuple[Device, ...]:
        """Every card, by index; one that is lost or sick is in it as it was last seen, or left out if it never was.

        Where no card ever was, one of those is an error.
        """
        if not self._threads:
            self._known.look()
        return self._known.devices

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:  # noqa: ARG002 - real cards live in the present
        """What the card says now; where it cannot be asked, why. XID errors are told in either case."""
        if self._failure is not None:
            raise SourceGoneError(f"cannot watch over the cards: {self._failure!r}; report this") from self._failure
        self._life.require_process()
        known = self._known.card(gpu_uuid)
        try:
            with self._life.use(gpu_uuid) as opened:
                readings = self._read(known, opened)
        except DriverAwayError as away:
            state = FieldState.QUIESCED if away.state is DriverState.QUIESCED else FieldState.LOST
            readings = self._absences.readings(known.device, state)
        except (CardLostError, DriverGoneError):
            self._known.generations.miss(gpu_uuid, known.handles)
            readings = self._absences.readings(known.device, FieldState.LOST)
        return self._xids.told_with(gpu_uuid, readings)

    def processes(self, gpu_uuid: str) -> list[OwnedProcess]:
        """Who was on the card when it was read last."""
        card = self._open.get(gpu_uuid)
        return [] if card is None or card.owners is None else card.owners.processes()

    def values(self) -> Iterator[OwnValue]:
        """What it says of its own work."""
        status = self._life.status()
        for state in DriverState:
            yield OwnValue(COLLECTOR_DRIVER_STATE, int(state is status.state), {"state": state})
        yield OwnValue(COLLECTOR_DRIVER_OPENED, status.opened)
        for gpu_uuid, counters in list(self._counters.items()):
            for series, resets in counters.resets.items():
                yield OwnValue(COLLECTOR_COUNTER_RESETS, resets, {"gpu_uuid": gpu_uuid, "field": series.name})
            for series, capped in counters.capped.items():
                labels = {"gpu_uuid": gpu_uuid, "field": series.name, "source": self.name}
                yield OwnValue(COLLECTOR_CAPPED_RATIOS, capped, labels)
        unproved = 0
        for gpu_uuid, card in list(self._open.items()):
            if card.owners is not None:
                unproved += card.owners.unproved
                refused = card.owners.refused_samples
                yield OwnValue(COLLECTOR_REFUSED_PROCESS_SAMPLES, refused, {"gpu_uuid": gpu_uuid})
        yield OwnValue(COLLECTOR_UNPROVED_PROCESSES, unproved)

    def facts(self) -> Iterator[OwnValue]:
        """What seldom changes: the way between the cards."""
        yield from self._map.values()

    def close(self) -> None:
        """Let go of the driver, and remember what is to be remembered."""
        self._stop.set()
        self._watch.look_soon()
        until_s = self._clock.monotonic_s() + _END_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until_s - self._clock.monotonic_s()))
        self._known.close()
        self._map.close()
        last = threading.Thread(target=self._life.close, name="nvml close", daemon=True)
        last.start()
        last.join(_END_SECONDS)
        self._state.save()

    def _read(self, known: KnownCard, opened: Opened) -> list[DeviceReading]:
        gpu_uuid = known.device.uuid
        if known.handle is None or known.opening != opened.opening:
            self._drop(gpu_uuid)
            if known.is_lost:
                return self._absences.readings(known.device, FieldState.LOST)
            if self._known.looked_in == opened.opening:
                raise UnavailableError(f"cannot read the card {gpu_uuid!r}: the driver does not find it; see dmesg")
            return self._absences.readings(known.device, FieldState.NOT_READY)
        card = self._open.get(gpu_uuid)
        if card is None or not card.is_of(known):
            self._drop(gpu_uuid)
            card = self._open[gpu_uuid] = OpenCard(
                opened.driver,
                known,
                clock=self._clock,
                counters=self._counters[gpu_uuid],
                table=self._processes,
                changed=partial(self._note_change, gpu_uuid),
            )
        try:
            readings = card.read(known)
        except CardLostError:
            self._drop(gpu_uuid)
            self._lost.add(gpu_uuid)
            raise
        except UnavailableError:
            self._watch.look_soon()
            raise
        if gpu_uuid in self._lost:
            self._lost.discard(gpu_uuid)
            # What is on it may be another than before.
            self._watch.look_soon()
        self._absences.remember(readings)
        return readings

    def _note_change(self, gpu_uuid: str, change: CardChanged) -> None:
        # A look that came in between has counted it.
        if self._known.card(gpu_uuid) is change.card:
            self._known.generations.miss(gpu_uuid, change.gone)
        self._watch.look_soon()

    def _addresses(self) -> Mapping[PciAddress, str]:
        # A slot is that of the card that is in it, not of one that was in it before.
        cards = sorted(self._known.cards(), key=lambda card: not card.is_lost)
        addresses = {pci_address(card.device.pci_bus_id): card.device.uuid for card in cards}
        return {address: uuid for address, uuid in addresses.items() if address is not None}

    def _drop(self, gpu_uuid: str) -> None:
        card = self._open.pop(gpu_uuid, None)
        if card is not None:
            card.close()

    def _release(self) -> None:
        """Let go of what the driver keeps for the cards; nobody uses it now."""
        for gpu_uuid in list(self._open):
            self._drop(gpu_uuid)

    def _tend(self, desk: QuiesceDesk) -> None:
        """Open and close the driver as it comes and goes, and as is asked for at the desk."""
        opened = self._life.status().opened
        try:
            while True:
                self._life.tend(quiesce=desk.is_wanted())
                status = self._life.status()
                if status.opened != opened:
                    opened = status.opened
                    # Nobody saw what became of the instances meanwhile.
                    self._known.generations.miss_all()
                    self._watch.look_soon()
                desk.say(Holding(status.state, status.is_released, status.in_the_way))
                self._state.save()
                if self._stop.wait(_TEND_SECONDS):
                    return
        finally:
            desk.close()

    def _guard(self, task: Callable[[], None]) -> None:
        """Run a thread's task; where it breaks, reading ends too, since one that only samples looks alive."""
        try:
            task()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next read raises it
            self._failure = error
