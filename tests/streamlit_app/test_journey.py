"""One person's way through the explorer, in a real browser far from the tenant's zone, on a real `gputab explorer`."""

import csv
import io
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from domain.clock import SystemClock
from domain.money import format_nano
from machine.process import Child, free_port
from meter.bills.invoice_store import load_draft
from store.access import Principal, Role
from store.database import Database
from streamlit_app.amounts import shown
from tests.streamlit_app.conftest import SPRING, Tokens

DAYS = ["2025-03-08", "2025-03-09", "2025-03-10"]
START_S = 60


@pytest.fixture
def explorer(ledger: Database, place: Path) -> Iterator[tuple[str, Path]]:
    """The address of `gputab explorer` on the ledger, and its log; it runs where a module of somebody else's lies."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", place / "explorer.log"
    (place / "settings.py").write_text("raise SystemExit", "utf-8")
    # As the command does that is installed, which does not look for modules where it is started.
    command = [sys.executable, "-P", "-m", "gputab", "explorer", "--port", str(port)]
    with Child(command, log=log, folder=place) as child, httpx.Client(trust_env=False) as client:

        def answers() -> bool:
            try:
                return client.get(f"{url}/_stcore/health").is_success
            except httpx.TransportError:
                return False

        child.wait_until(answers, timeout_s=START_S, clock=SystemClock())
        yield url, log


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no chromium on PATH")
    with sync_playwright() as playwright:
        # Without its sandbox, which a container of root's cannot have.
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window in Los Angeles that talks to this machine only."""
    context = browser.new_context(
        timezone_id="America/Los_Angeles", locale="en-US", viewport={"width": 1300, "height": 900}
    )
    opened = context.new_page()
    asked: set[str] = set()
    opened.on("request", lambda request: asked.add(request.url))
    yield opened
    context.close()
    assert {
        url for url in asked if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
    } == set()


def _log_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()


def _choose_days(page: Page) -> None:
    fields = page.get_by_test_id("stDateInput").get_by_role("spinbutton")
    for number, digits in enumerate("".join(day.split("-")) for day in (DAYS[0], DAYS[-1])):
        # Each part takes the digits that it has room for, and passes the rest on.
        fields.nth(3 * number).click()
        page.keyboard.type(digits)
    # What was chosen counts when the calendar is closed.
    page.keyboard.press("Escape")


def _cells(page: Page) -> list[list[str]]:
    """The table's cells, as the grid that draws them tells them to a screen reader."""
    rows = page.get_by_test_id("stDataFrame").locator("table tbody tr")
    return [[cell.text_content() or "" for cell in row.locator("td").all()] for row in rows.all()]


def _edges(page: Page, name: str, part: str) -> tuple[float, float]:
    """Where a part of a control begins and ends, from the top, in pixels."""
    box = page.get_by_test_id(name).locator(part).first.bounding_box()
    assert box is not None
    return box["y"], box["y"] + box["height"]


def _kept(page: Page) -> str:
    """All that the browser keeps of the page."""
    storages = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    return f"{page.url} {page.context.cookies()} {storages}"


def test_a_tenant_logs_in_looks_downloads_and_is_shown_out(
    page: Page, explorer: tuple[str, Path], ledger: Database, token_of: Tokens, tmp_path: Path
) -> None:
    url, log = explorer
    token = token_of.make(Role.TENANT, tenant="acme")
    with ledger.read() as connection:
        draft = load_draft(connection, Principal.local_operator(), "acme", *map(str, SPRING))
    total = shown(draft.total_nano, "CNY")

    page.goto(url)
    _log_in(page, "not a token")
    expect(page.get_by_text("This token does not open the explorer")).to_be_visible()
    _log_in(page, token.secret)
    expect(page.get_by_text("Nothing was charged on")).to_be_visible()
    expect(page).to_have_title("gputab · spend")
    expect(page.get_by_text("Deploy")).to_have_count(0)

    _choose_days(page)
    expect(page.get_by_role("heading", name=f"{total} CNY")).to_be_visible()
    expect(page.locator(".xtick text")).to_have_text(DAYS)
    expect(page.get_by_test_id("stDataFrame").locator("table tbody tr")).to_have_count(1 + len(DAYS))
    totals, *days = _cells(page)
    assert totals[:2] == ["total", total]
    assert [row[0] for row in days] == DAYS[::-1]
    top, end = _edges(page, "stDownloadButton", "button")
    assert _edges(page, "stButtonGroup", "button") == pytest.approx((top, end), abs=1)
    assert _edges(page, "stDateInput", "..")[1] == pytest.approx(end, abs=1)
    page.screenshot(path=tmp_path / "explorer.png")

    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "gputab-spend-acme-2025-03-08-to-2025-03-10.csv"
    content = Path(download.value.path()).read_bytes()
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert sum(Decimal(row["payable"]) for row in rows) == Decimal(format_nano(draft.total_nano)) > 0
    assert {row["tenant"] for row in rows} == {"acme"}
    assert token.secret not in _kept(page)

    token_of.expire(token)
    downloads: list[object] = []
    page.on("download", lambda download: downloads.append(download))
    page.get_by_role("button", name="Download CSV").click()
    expect(page.get_by_text("your token has expired or was revoked")).to_be_visible()
    expect(page.get_by_label("Token")).to_be_visible()
    for figure in (page.get_by_text(total), page.locator(".xtick"), page.get_by_test_id("stDataFrame")):
        expect(figure).to_have_count(0)
    assert downloads == []
    assert token.secret not in log.read_text("utf-8")
