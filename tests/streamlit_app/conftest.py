"""A ledger of two tenants, filled by gputab's own commands, and the explorer on it without a browser.

acme counts its days in Shanghai and in CNY, globex in New York and in USD: its grants are the day of 23 hours and the
day of 25. No device is known for any of it, so that no sample store is asked.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
import streamlit as st
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from domain.clock import MICROSECONDS
from gputab.cli import run
from store.access import NewToken, Principal, Role, create_token
from store.database import Database, now_us
from store.tables.access import tokens
from tests.databases import Databases

ROOT = Path(__file__).parents[2]
APP = ROOT / "streamlit_app" / "app.py"
DAY_US = 86_400 * MICROSECONDS
SPRING = (date(2025, 3, 8), date(2025, 3, 10))
BOOK = """
book: {book}
currency: {currency}
rates:
  - {{dimension: gpu, sku: rtx4090-24g, price: "{gpu}", unit: GPU-hour, from: 2025-01-01T00:00:00Z}}
  - {{dimension: vram, sku: "*", price: "{vram}", unit: GiB-hour, from: 2025-01-01T00:00:00Z}}
"""
ALLOCATIONS = """allocation,tenant,project,node,gpu_uuid,model,kind,milli_gpu,vram_mib,mig_profile,start,end
a1,acme,vision,,,NVIDIA GeForce RTX 4090,whole,,24564,,2025-03-08T22:30:07+08:00,2025-03-09T01:15:11+08:00
a2,acme,search,,,NVIDIA GeForce RTX 4090,share,250,1024,,2025-03-09T10:00:00+08:00,2025-03-09T11:40:01+08:00
a3,acme,vision,,,NVIDIA H100 80GB HBM3,whole,,81000,,2025-03-09T12:00:00+08:00,2025-03-09T12:30:00+08:00
g1,globex,training,,,NVIDIA GeForce RTX 4090,whole,,24564,,2025-03-09T00:00:00-05:00,2025-03-10T00:00:00-04:00
g2,globex,training,,,NVIDIA GeForce RTX 4090,whole,,24564,,2025-11-02T00:00:00-04:00,2025-11-03T00:00:00-05:00
"""
COMMANDS = (
    "tenant create acme --currency CNY --zone Asia/Shanghai --project vision --project search",
    "tenant create globex --currency USD --zone America/New_York --project training",
    "prices load retail.yaml",
    "prices load export.yaml",
    "tenant assign acme retail --from 2025-01-01T00:00:00Z",
    "tenant assign globex export --from 2025-01-01T00:00:00Z",
    "allocations import allocations.csv",
    "meter run --from 2025-03-08T00:00:00Z --to 2025-03-11T00:00:00Z",
    "meter run --from 2025-11-02T00:00:00Z --to 2025-11-04T00:00:00Z",
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Makes tokens in the ledger, and ends them."""

    database: Database

    def make(self, role: Role, tenant: str | None = None, node: str | None = None) -> NewToken:
        """One that is good for a day."""
        with self.database.write() as connection:
            now = now_us(connection)
            return create_token(
                connection,
                Principal.local_operator(),
                role=role,
                now_us=now,
                expires_us=now + DAY_US,
                tenant=tenant,
                node=node,
            )

    def expire(self, token: NewToken) -> None:
        """As if its time were over."""
        with self.database.write() as connection:
            row = tokens.c.token_id == token.token_id
            connection.execute(update(tokens).where(row).values(created_us=0, expires_us=1))


def clear_settings(patch: pytest.MonkeyPatch) -> None:
    """An environment without gputab's settings."""
    for name in [name for name in os.environ if name.upper().startswith("GPUTAB_")]:
        patch.delenv(name)


@pytest.fixture(scope="session")
def billed(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The ledger of both tenants, made once, that nobody is connected to."""
    folder = tmp_path_factory.mktemp("billed")
    (folder / "retail.yaml").write_text(BOOK.format(book="retail", currency="CNY", gpu="2.20", vram="0.03"), "utf-8")
    (folder / "export.yaml").write_text(BOOK.format(book="export", currency="USD", gpu="1.00", vram="0.00"), "utf-8")
    (folder / "allocations.csv").write_text(ALLOCATIONS, "utf-8")
    with databases.empty() as url:
        with pytest.MonkeyPatch.context() as patch:
            clear_settings(patch)
            patch.setenv("GPUTAB_DATABASE_URL", url)
            patch.chdir(folder)
            for words in ("db upgrade", *COMMANDS):
                assert run(words.split()) == 0, words
        yield url


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory and an environment without settings; what the explorer holds open ends with it."""
    clear_settings(monkeypatch)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    st.cache_resource.clear()


@pytest.fixture
def ledger_url(databases: Databases, billed: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A copy of it for one test, named by the settings."""
    with databases.copy(billed) as url:
        monkeypatch.setenv("GPUTAB_DATABASE_URL", url)
        yield url
        # The explorer's own connections would keep the copy from being dropped.
        st.cache_resource.clear()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Database]:
    """The copy, open."""
    with closing(Database(ledger_url)) as database:
        yield database


@pytest.fixture
def token_of(ledger: Database) -> Tokens:
    """Makes tokens in the test's ledger."""
    return Tokens(ledger)


@pytest.fixture
def open_page() -> Callable[[], AppTest]:
    """The explorer as a browser that comes for the first time gets it."""

    def opened() -> AppTest:
        return AppTest.from_file(APP, default_timeout=30).run()

    return opened


@pytest.fixture
def log_in(open_page: Callable[[], AppTest]) -> Callable[[str], AppTest]:
    """The explorer after a token was typed in."""

    def logged_in(secret: str) -> AppTest:
        page = open_page()
        page.text_input[0].set_value(secret)
        return page.button[0].click().run()

    return logged_in
