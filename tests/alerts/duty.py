"""The whole way of a page on real servers: VictoriaMetrics, vmalert, Alertmanager, and our receiver at its end."""

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from alerts import alertmanager
from alerts.card_rules import render_card_rules
from alerts.pager import Page, Pager
from alerts.readings import StoredReadings
from alerts.receiver import Receiver
from alerts.routes import render_routes
from alerts.watermark_rules import Patience, render_rules
from domain.clock import SystemClock
from machine.process import Child, free_port
from tests.alerts.fleet import Fleet
from tests.victoriametrics_server import start, until_healthy
from victoriametrics import vmalert

# How long a busy machine may take for what takes ten seconds.
_PATIENCE_S = 100.0


class Duty:
    """The servers, a fleet that feeds them, and every page by card; leaving the `with` block stops all of it.

    The rules are the shipped ones with shorter times.
    """

    def __init__(self, *, store: Path, vmalert_binary: Path, alertmanager_binary: Path, folder: Path) -> None:
        self._store_binary, self._folder = store, folder
        self._store_port, self._vmalert_port, self.alertmanager_port = free_port(), free_port(), free_port()
        self.pages: dict[str, list[Page]] = defaultdict(list)
        self.complaints: list[str] = []
        self.failing: set[str] = set()
        url = f"http://127.0.0.1:{self._store_port}"
        with ExitStack() as stack:
            self._start_store()
            stack.callback(lambda: self.store.stop())
            self.fleet = Fleet(url)
            stack.callback(self.fleet.stop)
            readings = stack.enter_context(StoredReadings(url, SystemClock()))
            pager = Pager(self._show, readings, SystemClock())
            self.receiver = stack.enter_context(Receiver(pager, port=0, complain=self.complaints.append))
            self.alertmanager = stack.enter_context(self._start_alertmanager(alertmanager_binary))
            self.vmalert = stack.enter_context(self._start_vmalert(vmalert_binary, url))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def wait_for(self, what: str, probe: Callable[[], bool]) -> None:
        """Block until `probe` is true; fail, and say what was told so far, where that does not come about."""
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + _PATIENCE_S
        while not probe():
            told = {card: [(*page.now, page.note) for page in pages] for card, pages in self.pages.items()}
            assert clock.monotonic_s() < deadline_s, f"{what} did not come about: {told}; {self.complaints}"
            clock.sleep_s(0.1)

    def kill_store(self) -> None:
        """End VictoriaMetrics."""
        self.store.stop()

    def restart_store(self) -> None:
        """Start it again on its data and port."""
        self._start_store()

    def failed_requests(self) -> float:
        """How many calls of the webhook Alertmanager counts as failed."""
        page = httpx.get(f"http://127.0.0.1:{self.alertmanager_port}/metrics", trust_env=False).text
        name = 'alertmanager_notification_requests_failed_total{integration="webhook"'
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))

    def _show(self, page: Page) -> None:
        assert page.card is not None
        if page.card.gpu_uuid in self.failing:
            raise RuntimeError("out of paper")
        self.pages[page.card.gpu_uuid].append(page)

    def _start_store(self) -> None:
        self.store = start(binary=self._store_binary, port=self._store_port, folder=self._folder / "store")

    def _start_alertmanager(self, binary: Path) -> Child:
        config = self._folder / "alertmanager.yaml"
        config.write_text(render_routes(self.receiver.url), "utf-8")
        data_dir = self._folder / "alertmanager"
        command = alertmanager.command(binary=binary, port=self.alertmanager_port, config=config, data_dir=data_dir)
        return _until_healthy(Child(command, log=self._folder / "alertmanager.log"), self.alertmanager_port)

    def _start_vmalert(self, binary: Path, store_url: str) -> Child:
        rules, card_rules = self._folder / "rules.yaml", self._folder / "card-rules.yaml"
        rules.write_text(render_rules(Patience(for_s=2, keep_firing_s=2, evaluation_s=1)), "utf-8")
        card_rules.write_text(re.sub(r"for: \dm$", "for: 2s", render_card_rules(), flags=re.MULTILINE), "utf-8")
        command = vmalert.command(
            binary=binary,
            port=self._vmalert_port,
            rules=[rules, card_rules],
            victoriametrics=store_url,
            alertmanager_url=f"http://127.0.0.1:{self.alertmanager_port}",
            secrets_dir=self._folder,
            evaluation_interval_s=1,
            resend_delay_s=1,
        )
        return _until_healthy(Child(command, log=self._folder / "vmalert.log"), self._vmalert_port)


def _until_healthy(child: Child, port: int) -> Child:
    return until_healthy(child, f"http://127.0.0.1:{port}/-/healthy")
