"""Where the demo runs: a folder of its own, and never a ledger that has customers."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from domain.errors import InputError
from gputab.demo.processes import programs
from gputab.demo.stage import Stage, prepare
from settings.gputab import load_settings
from store.access import Principal, authenticate
from store.database import Database
from store.tables import METADATA
from store.tenants import load_tenants

TENANTS = {"northlab": ("train",), "southlab": ("chat", "search")}
NOW_US = 1_796_000_000_000_000


@pytest.fixture
def stage_on(
    place: Path, victoriametrics_binary: Path, vmalert_binary: Path, alertmanager_binary: Path
) -> Callable[..., Stage]:
    """Prepares the demo in an empty working directory, over the settings given."""

    def prepared(**settings: str) -> Stage:
        base = load_settings(
            victoriametrics_binary=victoriametrics_binary,
            vmalert_binary=vmalert_binary,
            alertmanager_binary=alertmanager_binary,
            **settings,
        )
        return prepare(base, TENANTS, ["n1"], NOW_US, lambda _: None)

    return prepared


def _tenants(url: str) -> list[str]:
    with closing(Database(url)) as database, database.read() as connection:
        return [each.tenant for each in load_tenants(connection, Principal.local_operator())]


def _everything(url: str) -> list[str]:
    with closing(Database(url)) as database, database.read() as connection:
        return sorted(repr(connection.execute(select(table)).all()) for table in METADATA.tables.values())


def test_a_ledger_with_customers_is_refused_and_left_alone(stage_on: Callable[..., Stage], ledger: str) -> None:
    """`GPUTAB_DATABASE_URL` of the service may well be set in the shell in which somebody tries the demo."""
    before = _everything(ledger)
    with pytest.raises(InputError, match=r"^cannot run the demo on a ledger that holds 'acme' and 0 other tenants: "):
        stage_on(database_url=ledger)
    assert _tenants(ledger) == ["acme"]
    assert _everything(ledger) == before


def test_an_empty_database_that_is_named_is_used(stage_on: Callable[..., Stage], database_url: str) -> None:
    """Its second run is refused: by then it holds the tenants of the first."""
    stage = stage_on(database_url=database_url)
    assert stage.settings.database_url == database_url
    assert _tenants(database_url) == sorted(TENANTS)
    with pytest.raises(InputError, match="cannot run the demo on a ledger that holds 'northlab' and 1 other tenants"):
        stage_on(database_url=database_url)


def test_a_demo_after_a_demo_begins_anew(stage_on: Callable[..., Stage]) -> None:
    """In its own folder, whose ledger nobody else uses; its tokens let their owners in."""
    stage_on()
    stage = stage_on()
    assert _tenants(stage.settings.database_url) == sorted(TENANTS)
    with closing(Database(stage.settings.database_url)) as database, database.read() as connection:
        found = {
            tenant: authenticate(connection, secret, now_us=NOW_US).tenant
            for tenant, secret in stage.tenant_tokens.items()
        }
    assert found == {tenant: tenant for tenant in TENANTS}


def test_the_demo_keeps_its_evidence_to_itself(
    stage_on: Callable[..., Stage], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the settings keep that of the service, in this process and in the programs it starts."""
    monkeypatch.setenv("GPUTAB_EVIDENCE_DIR", str(place / "evidence"))
    stage = stage_on()
    assert Path(stage.settings.evidence_path).is_relative_to(stage.folder)
    environments = [
        program.environment
        for program in programs(stage, {"n1": []}, "http://127.0.0.1:9/alerts")
        if program.environment
    ]
    assert {each["GPUTAB_EVIDENCE_DIR"] for each in environments} == {str(stage.settings.evidence_path)}
