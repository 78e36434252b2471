"""The end of the demo: the last seconds are rated, the drafts printed, and the bill is held against the truth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from rich.console import Console

from allocator.bodies import AllocationBody
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.period import Period, billing_date, billing_zone
from domain.series import GPU_UP
from gputab import ledger
from gputab.commands.bills import print_invoice
from gputab.demo.cards import DemoCards
from gputab.demo.proof import HeldGrant, Proof, held_by_service, prove
from gputab.demo.stage import ZONE, Stage
from gputab.output import OutputFormat
from meter.bills.invoice_store import load_draft
from meter.bills.invoices import Invoice
from meter.ledger.ledger_store import load_charges
from meter.windows.observing import Observer
from meter.windows.passes import rate_period
from meter.windows.windows import WindowRater
from store.access import Principal
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

DeviceId = tuple[str, str | None]
"""UUID of a card, and of a MIG instance on it where it is one."""

_DELIVERY_TIMEOUT_S = 30.0
# A busy machine may miss a second now and then, of which the bill says how it was judged.
_HOLES_ONE_IN = 50


@dataclass(frozen=True, slots=True)
class Accounts:
    """What the demo came to; `failures` are the windows that could not be rated."""

    drafts: Sequence[Invoice]
    residual_compute: int | None
    residual_vram: int | None
    proof: Proof
    failures: Sequence[str]

    @property
    def problems(self) -> list[str]:
        """Why the demo failed; empty where it did not."""
        found = list(self.failures)
        found += [f"the invoice of {draft.tenant} is empty" for draft in self.drafts if not draft.lines]
        found += ["nothing was granted, so nothing was billed"] if not self.drafts else []
        found += [
            f"{draft.tenant} has {draft.unpriced_seconds} unpriced seconds"
            for draft in self.drafts
            if draft.unpriced_seconds
        ]
        if self.residual_compute != 0 or self.residual_vram != 0:
            found.append(
                f"capacity is not accounted for: residual {self.residual_compute} compute-unit-seconds, "
                f"{self.residual_vram} VRAM byte-seconds"
            )
        if self.proof.holes * _HOLES_ONE_IN > self.proof.granted_seconds:
            found.append(f"{self.proof.holes} granted seconds were not sampled: too many to prove anything")
        return found + [str(mismatch) for mismatch in self.proof.mismatches]


def settle(
    stage: Stage,
    cards: DemoCards,
    done: Sequence[AllocationBody],
    past_grants: Sequence[HeldGrant],
    clock: Clock,
    console: Console,
) -> int:
    """Rate the whole span, print what every tenant owes, and return the exit code of the demo.

    `done` are the allocations that the demo's tenants were granted and gave back, `past_grants` those of before.
    """
    config, who = stage.settings, Principal.local_operator()
    held = [*(held_by_service(each, grant) for each in done for grant in each.grants), *past_grants]
    ended_us = max((grant.end_us or 0 for each in done for grant in each.grants), default=0)
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, who) as observer,
        console.status("rating the last seconds"),
    ):
        _wait_for_delivery(config.victoriametrics_url, observer, cards.nodes, ended_us // MICROSECONDS + 1, clock)
        rater = WindowRater(database, who, observer)
        span = Period(cards.start_us, clock.now_us())
        failures: list[str] = []
        results = list(rate_period(database, who, rater, span, clock, failures.append))
        devices = {(grant.span.gpu_uuid, grant.span.mig_uuid) for grant in held}
        unsampled = _unsampled(config.victoriametrics_url, cards.nodes, devices, span)
        zone = billing_zone(ZONE)
        first, last = billing_date(span.start_us, zone), billing_date(span.end_us, zone)
        with database.read() as connection:
            charges = load_charges(connection, who)
            drafts = [
                load_draft(connection, who, tenant, first.isoformat(), last.isoformat())
                for tenant in sorted({each.tenant for each in done} | {each.tenant for each in past_grants})
            ]
    accounts = Accounts(
        drafts,
        _total(result.window.residual_compute for result in results if result.window),
        _total(result.window.residual_vram for result in results if result.window),
        prove(held, cards.worlds(stage), charges, unsampled),
        failures,
    )
    _print(accounts, first, last, console)
    return 1 if accounts.problems else 0


def _wait_for_delivery(url: str, observer: Observer, nodes: Sequence[str], until_s: int, clock: Clock) -> None:
    """Block until every node's collector says that all seconds before `until_s` are in the store."""
    deadline_s = clock.monotonic_s() + _DELIVERY_TIMEOUT_S
    with Pusher(url) as pusher:
        while True:
            pusher.flush()
            until_us, now_us = until_s * MICROSECONDS, clock.now_us()
            waiting = [node for node in nodes if observer.complete_until_us(node, now_us) < until_us]
            # A second is delivered at its beginning and rated at its end.
            if not waiting and now_us >= until_us:
                return
            if clock.monotonic_s() > deadline_s:
                raise UnavailableError(
                    f"cannot bill: no delivery from {', '.join(waiting)} in {_DELIVERY_TIMEOUT_S:g} s; see the logs"
                )
            clock.sleep_s(0.3)


def _unsampled(
    url: str, nodes: Sequence[str], devices: Iterable[DeviceId], span: Period
) -> dict[DeviceId, frozenset[int]]:
    """The seconds of each device that the store has no `gpu_up` of; asked of the store, not of the meter.

    Of the devices that are named, and so of one that never said a word, too; of each hour that the span touches.
    """
    found: dict[DeviceId, set[int]] = {device: set() for device in devices}
    with Reader(url) as reader:
        for hour in span.hours():
            start_s, end_s = hour.start_us // MICROSECONDS, hour.end_us // MICROSECONDS
            sampled: dict[DeviceId, list[int]] = {}
            for node in nodes:
                said = reader.export(Selector((GPU_UP,), {"node": node}), start_s, end_s).frame
                for (gpu_uuid, mig_uuid), its_rows in said.group_by("gpu_uuid", "mig_uuid"):
                    sampled[str(gpu_uuid), str(mig_uuid) or None] = its_rows["second_s"].to_list()
            for device, missing in found.items():
                missing.update(set(range(start_s, end_s)).difference(sampled.get(device, ())))
    return {device: frozenset(seconds) for device, seconds in found.items()}


def _total(residuals: Iterable[int | None]) -> int | None:
    known = list(residuals)
    return None if None in known else sum(each for each in known if each is not None)


def _print(accounts: Accounts, first: date, last: date, console: Console) -> None:
    for draft in accounts.drafts:
        print_invoice(draft, OutputFormat.TABLE)
    proof = accounts.proof
    residual = f"{accounts.residual_compute} compute-unit-seconds, {accounts.residual_vram} VRAM byte-seconds"
    console.print(f"conservation residual, {first} to {last}: {residual}", soft_wrap=True, highlight=False)
    compared = f"{proof.allocations} allocations, {proof.granted_seconds:,} granted seconds"
    found = f"{len(proof.mismatches)} differences; {proof.holes} granted seconds were not sampled"
    console.print(f"held against the truth: {compared}, {found}", soft_wrap=True, highlight=False)
    for problem in accounts.problems:
        console.print(f"FAILED: {problem}", style="bold red", markup=False, soft_wrap=True)
