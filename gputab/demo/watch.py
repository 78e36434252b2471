"""What the live tab shows, asked of the service, the sample store and the ledger."""

from collections import defaultdict

import httpx

from allocator.client import AllocatorClient
from allocator.request import Holding
from domain.clock import MICROSECONDS
from domain.money import NANO
from domain.period import HOUR_US, Period
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_SM_ACTIVE, GPU_UP, Series
from gputab.demo.stage import CURRENCY, Stage
from gputab.demo.tab import CardNow, TabView
from meter.ledger.ledger_store import load_charges
from store.access import Principal
from store.database import Database
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

# A sample is seen some 3 s after its second; older than this it says nothing of now.
_LOOKBACK_S = 15


class Watch:
    """Looks once a second."""

    def __init__(self, stage: Stage, database: Database, client: httpx.Client) -> None:
        self._operator = AllocatorClient(stage.settings.allocator_url, stage.operator_token, client)
        self._reader = Reader(stage.settings.victoriametrics_url, client)
        self._database = database
        self._first_hour_us: int | None = None

    def look(self, now_s: int, remark: str) -> TabView:
        """The picture at `now_s`."""
        hour_us = now_s * MICROSECONDS // HOUR_US * HOUR_US
        if self._first_hour_us is None:
            self._first_hour_us = hour_us
        by_allocation: dict[str, int] = defaultdict(int)
        by_tenant: dict[str, int] = defaultdict(int)
        with self._database.read() as connection:
            since = Period(self._first_hour_us, hour_us + HOUR_US)
            for charge in load_charges(connection, Principal.local_operator(), windows_in=since):
                by_allocation[charge.allocation] += charge.amount_nano
                if charge.window_start_us == hour_us:
                    by_tenant[charge.tenant] += charge.amount_nano
        return TabView(
            cards=self._operator.cards(),
            now=self._now(now_s),
            allocations=self._operator.list(Holding.OPEN, limit=500).allocations,
            by_allocation=by_allocation,
            by_tenant=by_tenant,
            currency=CURRENCY,
            remark=remark,
        )

    def line(self, now_s: int) -> str:
        """The picture as one line, where there is no terminal to draw on."""
        view = self.look(now_s, "")
        busy = sum(1 for card in view.cards if card.grants)
        sums = ", ".join(f"{tenant} {nano / NANO:.4f}" for tenant, nano in sorted(view.by_tenant.items()))
        return f"{busy} of {len(view.cards)} cards in use; this hour, {view.currency}: {sums or 'nothing yet'}"

    def _now(self, now_s: int) -> dict[str, CardNow]:
        # A card in MIG mode tells no busy ratio, and an RTX 4090 nothing finer.
        busy = self._latest(GPU_BUSY, now_s) | self._latest(GPU_SM_ACTIVE, now_s)
        used = self._latest(GPU_MEMORY_USED, now_s)
        up = self._latest(GPU_UP, now_s)
        return {
            uuid: CardNow(
                # A lost card says nothing, so its last values are not of now.
                busy.get(uuid) if is_up else None,
                int(used[uuid]) if is_up and uuid in used else None,
                is_up=bool(is_up),
            )
            for uuid, is_up in up.items()
        }

    def _latest(self, series: Series, now_s: int) -> dict[str, float]:
        selector = Selector((series,), {"mig_uuid": ""}).expression
        found = self._reader.instant(f"last_over_time({selector}[{_LOOKBACK_S}s])", now_s)
        return {result.labels["gpu_uuid"]: result.values[-1] for result in found}
