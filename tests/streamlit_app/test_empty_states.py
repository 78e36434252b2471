"""What is shown where there is nothing to show, or no ledger to ask: one line with what to do, and no traceback."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import streamlit as st
from sqlalchemy.engine import make_url
from streamlit.testing.v1 import AppTest

from machine.process import free_port
from store.access import Principal, Role
from store.database import Database
from store.migrate import downgrade
from store.tenants import create_tenant
from tests.streamlit_app.conftest import Tokens
from tests.streamlit_app.pages import figures, words

OpenPage = Callable[[], AppTest]
LogIn = Callable[[str], AppTest]


@pytest.fixture
def fresh(migrated_url: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A ledger at the newest migration with nothing in it, named by the settings."""
    monkeypatch.setenv("GPUTAB_DATABASE_URL", migrated_url)
    with closing(Database(migrated_url)) as database:
        yield database
        st.cache_resource.clear()


def _line(page: AppTest) -> str:
    """The one thing that is on the page."""
    (error,) = page.error
    assert words(page) == error.value
    assert not page.text_input
    assert not figures(page)
    assert not page.exception
    return str(error.value)


def test_a_ledger_without_tenants_says_how_one_is_made(fresh: Database, log_in: LogIn) -> None:
    page = log_in(Tokens(fresh).make(Role.OPERATOR).secret)
    assert [info.value for info in page.info] == [
        "There is no tenant yet. The operator adds the first by `gputab tenant create`."
    ]
    assert not figures(page)


@pytest.mark.parametrize("role", [Role.TENANT, Role.BILLING])
def test_a_tenant_without_charges_is_told_when_they_come(fresh: Database, log_in: LogIn, role: Role) -> None:
    with fresh.write() as connection:
        create_tenant(
            connection, Principal.local_operator(), tenant="acme", zone="Asia/Shanghai", currency="CNY", now_us=0
        )
    page = log_in(Tokens(fresh).make(role, tenant="acme" if role is Role.TENANT else None).secret)
    assert [info.value for info in page.info] == [
        "There are no charges yet. They come as soon as the meter has rated what was granted."
    ]
    assert "nothing settled yet · 0 windows still open · covered seconds: none granted" in words(page)
    assert not figures(page)


def test_a_ledger_that_is_not_migrated_names_the_command(
    database_url: str, place: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTAB_DATABASE_URL", database_url)
    with closing(Database(database_url)) as database:
        database.make_file()
    line = _line(open_page())
    assert line.startswith("cannot use the database at migration 'none': ")
    assert line.endswith("run `gputab db upgrade`")
    st.cache_resource.clear()


def test_a_ledger_that_is_mended_is_shown_without_a_new_start(
    ledger: Database, log_in: LogIn, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    """What was refused is not kept."""
    url = os.environ["GPUTAB_DATABASE_URL"]
    monkeypatch.setenv("GPUTAB_DATABASE_URL", f"sqlite:///{place}/elsewhere.db")
    assert "run `gputab db upgrade`" in _line(open_page())
    monkeypatch.setenv("GPUTAB_DATABASE_URL", url)
    assert log_in(Tokens(ledger).make(Role.OPERATOR).secret).date_input


def test_a_ledger_that_loses_its_tables_while_the_page_is_open(fresh: Database, log_in: LogIn) -> None:
    with fresh.write() as connection:
        create_tenant(connection, Principal.local_operator(), tenant="acme", zone="UTC", currency="CNY", now_us=0)
    page = log_in(Tokens(fresh).make(Role.OPERATOR).secret)
    downgrade(fresh)
    page.run()
    assert _line(page).endswith("run `gputab db upgrade`")


def test_a_server_that_is_down_is_one_line_and_no_password(
    place: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(f"postgresql+psycopg://gputab:hunter2@127.0.0.1:{free_port()}/gputab")
    monkeypatch.setenv("GPUTAB_DATABASE_URL", url.render_as_string(hide_password=False))
    line = _line(open_page())
    assert line.startswith("cannot use the database: ")
    assert "hunter2" not in line


def test_settings_that_cannot_be_used_are_one_line(
    place: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTAB_DATABASE_UR", "x")
    assert _line(open_page()).startswith("cannot use the settings: GPUTAB_DATABASE_UR: unknown setting")
