"""`gputab explorer` before it hands over to Streamlit: what keeps it from starting is one line with a remedy."""

import socket
from contextlib import closing
from pathlib import Path

import pytest
from streamlit import config

from domain.errors import UnavailableError
from gputab.commands.explorer import explorer
from machine.process import free_port
from store.database import Database
from streamlit_app.launcher import ADDRESS, command


@pytest.mark.usefixtures("ledger")
def test_a_port_that_is_taken_is_refused_before_anything_is_started() -> None:
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UnavailableError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: in use; give another --port$"
        ):
            explorer(port=port)


def test_a_ledger_that_is_not_migrated_is_refused(
    database_url: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTAB_DATABASE_URL", database_url)
    with closing(Database(database_url)) as database:
        database.make_file()
    with pytest.raises(UnavailableError, match=r"run `gputab db upgrade`$"):
        explorer(port=free_port())


def test_every_option_is_one_that_streamlit_knows() -> None:
    """It would refuse another at its start, and a release may rename what keeps the page private."""
    program, *words, script = command(8501)[:6]
    assert (Path(program).name[:6], words) == ("python", ["-P", "-m", "streamlit", "run"])
    assert Path(script).is_file()
    options = dict(word.removeprefix("--").split("=", 1) for word in command(8501)[6:])
    assert options.keys() <= config.get_config_options().keys()
    assert (options["server.address"], options["server.port"]) == ("127.0.0.1", "8501")
    assert options["browser.gatherUsageStats"] == "false"
    assert options["client.showErrorDetails"] == "none"


def test_what_is_not_said_is_off_by_itself() -> None:
    """A door for programs that drive the page, and files of the app's folder served to anybody."""
    known = config.get_config_options()
    for name in ("server.enableAgentApi", "server.enableStaticServing"):
        assert name not in known or known[name].default_val is False
