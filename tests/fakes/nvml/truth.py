"""Ground truth: work whose every microsecond is known, given to the fake driver to measure.

The library evaluates the same pure functions of time (`library/load.c`) at each call, so that nothing has to run
beside it: memory and GPM are exact to the microsecond, energy to the millijoule or to the card's `energy_step_us`.
Rates are told by the driver in whole percent of periods of `sample_period_us` that have ended, 100 ms by default.

A kernel runs for `on_us` of each period and then uses `sm_permille` of the SMs of its card or compute instance.
Kernels there take turns, as under time-slicing; one that `overlaps` runs inside another's turn, as under MPS.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.state import NONE, Card

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Work:
    """What one process does in [start_us, end_us), without end where None. Without a period it only holds memory."""

    pid: int
    memory_bytes: int
    start_us: int
    end_us: int | None = None
    period_us: int = 0
    offset_us: int = 0
    on_us: int = 0
    sm_permille: int = 1_000
    memory_permille: int = 0
    overlaps: bool = False
    tenant: str = ""

    def on_between_us(self, from_us: int, until_us: int) -> int:
        """The microseconds of [from_us, until_us) in which its kernels run."""
        until_us = until_us if self.end_us is None else min(until_us, self.end_us)
        from_us = max(from_us, self.start_us)
        if not self.period_us or from_us >= until_us:
            return 0
        first = self.start_us + self.offset_us
        return self._on_before(until_us - first) - self._on_before(from_us - first)

    def _on_before(self, elapsed_us: int) -> int:
        # Before its first turn the whole periods are -1 and the rest of that one is full.
        whole, rest = divmod(elapsed_us, self.period_us)
        return whole * self.on_us + min(rest, self.on_us)

    def lives_at(self, at_us: int) -> bool:
        """Whether the process is there at that instant."""
        return self.start_us <= at_us and (self.end_us is None or at_us < self.end_us)

    def lives_with(self, other: "Work") -> bool:
        """Whether both are there at some instant."""
        return (other.end_us is None or self.start_us < other.end_us) and (
            self.end_us is None or other.start_us < self.end_us
        )


@dataclass(frozen=True)
class TrueSecond:
    """What was so in [s, s+1). Ratios are of the device, which weighs what is done in compute instances by their SMs.

    `memory_bytes` are those of the processes there at the instant s; `busy_by_pid` is the time in which each ran.
    `joules` are the card's, and None of a GPU instance, which has no meter.
    """

    busy: Fraction
    sm_active: Fraction
    memory_bytes: dict[int, int]
    busy_by_pid: dict[int, Fraction]
    joules: Fraction | None


class GroundTruth:
    """Work on the cards of a fake driver, and what was true of it."""

    def __init__(self, driver: FakeDriver, start_us: int) -> None:
        """Energy is counted from `start_us` on; no work starts before."""
        self._driver, self._start_us = driver, start_us
        self._works: dict[str, list[Work]] = {}

    def simulate(self, uuid: str, **fields: int) -> None:
        """Let a card's numbers come from what runs on it. `fields` are of the state's card, such as energy_step_us."""
        self._driver.set(uuid, simulated=1, simulated_from_us=self._start_us, **fields)

    def run(self, uuid: str, work: Work) -> None:
        """Let a process work on a card, or on a MIG device of one. ValueError for what no GPU could do."""
        works = self._works.setdefault(uuid, [])
        _check(work, [other for other in works if other.lives_with(work)], self._start_us)
        works.append(work)
        self._driver.process(
            uuid,
            work.pid,
            work.memory_bytes,
            from_us=work.start_us,
            until_us=work.end_us or 0,
            period_us=work.period_us,
            offset_us=work.offset_us,
            on_us=work.on_us,
            sm_permille=work.sm_permille,
            memory_permille=work.memory_permille,
            overlaps=int(work.overlaps),
        )

    def stop(self, uuid: str, pid: int, end_us: int) -> None:
        """Let a process that has no end yet end at that instant, which should lie ahead: the past is measured."""
        place = next(place for place, work in enumerate(self._works[uuid]) if work.pid == pid and work.end_us is None)
        self._works[uuid][place] = replace(self._works[uuid][place], end_us=end_us)
        card, (_, row) = self._driver.card_of(uuid), self._driver.place(uuid)
        gi_id = NONE if row == NONE else card.instances[row].gi_id
        with self._driver.state.writing():
            for process in card.processes[: card.process_count]:
                if (process.pid, process.gi_id, process.until_us) == (pid, gi_id, 0):
                    process.until_us = end_us

    def true_second(self, uuid: str, second_s: int) -> TrueSecond:
        """What was true of a card, or of the GPU instance of a MIG device, in [second_s, second_s + 1)."""
        from_us = second_s * SECOND_US
        return self.true_span(uuid, from_us, from_us + SECOND_US)

    def true_span(self, uuid: str, from_us: int, until_us: int) -> TrueSecond:
        """The same of any span of whole microseconds; the ratios are means over it."""
        own_sms, here = self._sms_of(uuid)
        span_us = until_us - from_us
        busy = sm_active = Fraction(0)
        memory_bytes: dict[int, int] = {}
        busy_by_pid: dict[int, Fraction] = {}
        for each, sms in here.items():
            for work in self._works.get(each, ()):
                on = Fraction(work.on_between_us(from_us, until_us), span_us)
                busy += 0 if work.overlaps else on * sms / own_sms
                sm_active += on * work.sm_permille * sms / (1_000 * own_sms)
                busy_by_pid[work.pid] = busy_by_pid.get(work.pid, Fraction(0)) + on
                if work.lives_at(from_us):
                    memory_bytes[work.pid] = memory_bytes.get(work.pid, 0) + work.memory_bytes
        is_card = self._driver.place(uuid)[1] == NONE
        joules = self._joules(self._driver.card_of(uuid), sm_active, from_us, until_us) if is_card else None
        return TrueSecond(busy, sm_active, memory_bytes, busy_by_pid, joules)

    def _sms_of(self, uuid: str) -> tuple[int, dict[str, int]]:
        """The SMs of a card, or of the GPU instance of a MIG device, and those of each device of it that has work."""
        slot, row = self._driver.place(uuid)
        card = self._driver.world.cards[slot]
        places = {each: self._driver.place(each) for each in self._works}
        rows = {each: card.instances[its] for each, (there, its) in places.items() if there == slot and its != NONE}
        if row == NONE:
            return card.sms, {uuid: card.sms, **{each: instance.sms for each, instance in rows.items()}}
        gi_id = card.instances[row].gi_id
        own_sms = sum(each.sms for each in card.instances if each.exists and each.gi_id == gi_id)
        return own_sms, {each: instance.sms for each, instance in rows.items() if instance.gi_id == gi_id}

    def _joules(self, card: Card, sm_active: Fraction, from_us: int, until_us: int) -> Fraction:
        idle_us = max(0, until_us - max(from_us, self._start_us))
        dynamic = sm_active * (until_us - from_us) * card.dynamic_milliwatts
        return Fraction(idle_us * card.idle_milliwatts + dynamic) / 10**9


def _check(work: Work, others: list[Work], start_us: int) -> None:
    """Refuse work before the start, turns longer than their period, and two kernels where there is one turn."""
    where = f"cannot run the process {work.pid}"
    if work.start_us < start_us:
        raise ValueError(f"{where} from {work.start_us}: nothing starts before {start_us}")
    if work.offset_us + work.on_us > work.period_us:
        raise ValueError(
            f"{where} for {work.on_us} us from {work.offset_us} of {work.period_us}: make the period longer"
        )
    if not work.on_us:
        return
    turns = [other for other in others if other.on_us]
    if any(other.period_us != work.period_us for other in turns):
        raise ValueError(f"{where} in periods of {work.period_us} us: give all kernels of a device one period")
    beside = [other for other in turns if _distance(other, work) < other.on_us or _distance(work, other) < work.on_us]
    if work.overlaps:
        if not any(_is_inside(work, other) for other in beside if not other.overlaps):
            raise ValueError(f"{where} beside another's kernel: let it lie inside one")
        if work.sm_permille + sum(other.sm_permille for other in beside) > 1_000:
            raise ValueError(f"{where} on {work.sm_permille} permille of the SMs: the others leave it less")
    elif any(not other.overlaps for other in beside):
        raise ValueError(f"{where} in another's turn: move its offset, or say that it overlaps")


def _distance(first: Work, second: Work) -> int:
    """From the start of a turn of the first to the start of the next turn of the second."""
    return (second.start_us + second.offset_us - first.start_us - first.offset_us) % first.period_us


def _is_inside(inner: Work, outer: Work) -> bool:
    lives = outer.start_us <= inner.start_us and (
        outer.end_us is None or (inner.end_us is not None and inner.end_us <= outer.end_us)
    )
    return lives and _distance(outer, inner) + inner.on_us <= outer.on_us
