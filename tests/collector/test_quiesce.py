"""The two sides of letting go of the cards, by way of two files: who asks, and who answers."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.quiesce import Holding, QuiesceCaller, QuiesceDesk
from domain.clock import FrozenClock
from domain.errors import UnavailableError
from gputab.cli import run
from tests.collector.patience import CLOCK, wait_until

NODE = "node-1"
OPEN = Holding("open", False, ())
LEAVING = Holding("quiesced", False, ("GPU-1", "waiting for events"))
RELEASED = Holding("quiesced", True, ())


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[QuiesceDesk]:
    desk = QuiesceDesk(tmp_path, NODE)
    yield desk
    desk.close()


@pytest.fixture
def caller(tmp_path: Path) -> QuiesceCaller:
    """Of one whose time passes where he waits."""
    return QuiesceCaller(tmp_path, NODE, FrozenClock(0))


def test_who_asks_gets_his_answer_when_nothing_is_held(desk: QuiesceDesk, tmp_path: Path) -> None:
    desk.say(OPEN)
    caller = QuiesceCaller(tmp_path, NODE, CLOCK)
    asking = threading.Thread(target=caller.quiesce, args=(60,))
    asking.start()
    wait_until(desk.is_wanted)
    desk.say(LEAVING)
    CLOCK.sleep_s(0.3)
    assert asking.is_alive(), "the cards are not let go of yet"
    desk.say(RELEASED)
    asking.join()
    assert desk.is_wanted()

    resuming = threading.Thread(target=caller.resume, args=(60,))
    resuming.start()
    wait_until(lambda: not desk.is_wanted())
    desk.say(OPEN)
    resuming.join()


def test_a_call_that_hangs_is_named_and_the_request_stands(desk: QuiesceDesk, caller: QuiesceCaller) -> None:
    """M4: the collector lets go as soon as it can."""
    desk.say(LEAVING)
    with pytest.raises(UnavailableError, match=r"after 10 s a call still hangs \(GPU-1, waiting for events\)"):
        caller.quiesce(10)
    assert desk.is_wanted()


def test_without_a_collector_the_request_is_taken_back(caller: QuiesceCaller, tmp_path: Path) -> None:
    """Nobody would hear it; one that was made before stands."""
    with pytest.raises(UnavailableError, match="none that reads the cards by the driver runs here"):
        caller.quiesce(10)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "quiesce-node-1").touch()
    with pytest.raises(UnavailableError, match="none that reads the cards by the driver runs here"):
        caller.quiesce(10)
    assert QuiesceDesk(tmp_path, NODE).is_wanted()


def test_what_a_collector_that_has_ended_last_said_is_no_answer(
    desk: QuiesceDesk, caller: QuiesceCaller, tmp_path: Path
) -> None:
    """It was killed while it held nothing; the next one may hold everything."""
    desk.say(RELEASED)
    desk.close()
    with pytest.raises(UnavailableError, match="runs here"):
        caller.quiesce(10)


def test_a_request_can_be_taken_back_while_no_collector_runs(caller: QuiesceCaller, tmp_path: Path) -> None:
    (tmp_path / "quiesce-node-1").touch()
    with pytest.raises(UnavailableError, match="runs here"):
        caller.resume(10)
    assert not QuiesceDesk(tmp_path, NODE).is_wanted()


def test_cards_that_are_not_taken_up_again_are_said(desk: QuiesceDesk, caller: QuiesceCaller) -> None:
    desk.say(RELEASED)
    with pytest.raises(UnavailableError, match="cannot see that the cards of 'node-1' are taken up again after 10 s"):
        caller.resume(10)


def test_a_driver_that_is_gone_when_they_are_to_be_taken_up_is_an_answer(
    desk: QuiesceDesk, caller: QuiesceCaller
) -> None:
    desk.say(Holding("gone", True, ()))
    assert caller.resume(10) == "gone"


def test_signals_are_put_down_so_that_they_hold_over_a_restart(desk: QuiesceDesk, tmp_path: Path) -> None:
    desk.signal(quiesce=True)
    assert desk.is_wanted()
    assert QuiesceDesk(tmp_path, NODE).is_wanted()
    desk.signal(quiesce=False)
    assert not desk.is_wanted()
    assert not QuiesceDesk(tmp_path, NODE).is_wanted()


def test_a_signal_is_heard_on_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    desk = QuiesceDesk(tmp_path / "data", NODE)
    desk.signal(quiesce=True)
    with capture_logs() as logs:
        assert desk.is_wanted()
        assert desk.is_wanted()
        desk.say(RELEASED)
        desk.say(RELEASED)
    assert [log["event"] for log in logs] == ["quiesce_not_noted", "quiesce_unanswered"], "each once"
    assert all(log["remedy"] for log in logs)

    (tmp_path / "data").unlink()
    assert desk.is_wanted()
    desk.say(RELEASED)
    (tmp_path / "data" / "quiesce-node-1").unlink()
    (tmp_path / "data" / "quiesce-node-1").mkdir()
    desk.signal(quiesce=False)
    with capture_logs() as logs:
        assert not desk.is_wanted()
    assert [log["event"] for log in logs] == ["quiesce_not_noted"], "a new spell is said again"
    desk.close()


def test_nodes_of_one_machine_are_asked_apart(desk: QuiesceDesk, tmp_path: Path) -> None:
    other = QuiesceDesk(tmp_path, "node/2")
    other.signal(quiesce=True)
    assert other.is_wanted()
    assert not desk.is_wanted()


def test_the_command_ends_with_an_error_where_no_collector_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTAB_DATA_DIR", str(tmp_path / "data"))
    assert run(["quiesce", "--node", NODE]) == 1
    assert "name its node by --node" in capsys.readouterr().err
    for unusable in ("no good", ""):
        assert run(["quiesce", "--node", unusable]) == 2
