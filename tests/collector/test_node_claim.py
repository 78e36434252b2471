"""One collector of a machine tells of a node, whoever else was started."""

import os
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import structlog

from collector.node_claim import NodeClaim
from tests.collector.claims import HOLDER, STATE, STORE, Hold, Holder


def test_the_first_has_it_and_who_comes_later_when_that_has_ended_however_it_ends(unique_node: str, hold: Hold) -> None:
    first = hold()
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert not claim.take()
        assert claim.holder_pid == first.process.pid
        claim.wait(0)
        assert not claim.take()
        first.process.kill()
        claim.wait(60)
        assert claim.take()
        assert claim.take(), "again"
        assert claim.holder_pid is None
        assert hold().answer == "False"


def test_who_waits_is_told_where_the_other_puts_down_what_it_knows(unique_node: str, hold: Hold) -> None:
    """Also where it is killed at once: it said so as we came."""
    first = hold()
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert not claim.take()
        assert claim.former_state is None
        claim.wait(60)
        first.process.kill()
        claim.wait(60)
        assert claim.take()
        assert claim.former_state == Path.cwd() / "its state.json"


def test_it_is_free_when_it_was_given_up(unique_node: str, hold: Hold) -> None:
    claim = NodeClaim(unique_node, STORE, STATE)
    assert claim.take()
    claim.close()
    assert hold().answer == "True"


@pytest.mark.parametrize("store", ["http://127.0.0.1:8429", "http://127.0.0.1:8428/select", "http://other:8428"])
def test_collectors_of_one_name_that_tell_different_stores_are_no_concern_of_each_other(
    unique_node: str, hold: Hold, store: str
) -> None:
    assert hold(store=store).answer == "True"
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert claim.take()


def test_a_password_of_the_store_is_in_no_name(unique_node: str, hold: Hold) -> None:
    """Nor does it make another claim: both tell the same store."""
    assert hold(store="http://me:secret@127.0.0.1:8428").answer == "True"
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert not claim.take()


def test_one_that_becomes_a_new_program_keeps_it(unique_node: str, hold: Hold) -> None:
    """As a collector does whose driver was exchanged, however often that is: nobody comes between."""
    again = "claim.take(); claim.hand_on(); os.execv(sys.executable, [sys.executable, '-c', {!r}, *sys.argv[1:3]])"
    holder = hold(again.format(HOLDER.format(again.format(HOLDER.format("")))))
    assert holder.answer == "True"
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert not claim.take()
        assert claim.holder_pid == holder.process.pid
        holder.process.kill()
        claim.wait(60)
        assert claim.take()


def test_one_that_waits_sees_no_end_while_there_is_none(unique_node: str, hold: Hold) -> None:
    """The one that has it becomes a new program meanwhile, at the word of its input, and lets go of who waits."""
    lines = "claim.take(); claim.hand_on(); print('had', flush=True); sys.stdin.readline()\n"
    again = "os.execv(sys.executable, [sys.executable, '-c', {!r}, *sys.argv[1:3]])"
    holder = hold(lines + again.format(HOLDER.format("")))
    assert holder.answer == "had"
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert not claim.take()
        assert holder.process.stdin is not None
        assert holder.process.stdout is not None
        holder.process.stdin.write("\n")
        holder.process.stdin.flush()
        assert holder.process.stdout.readline().strip() == "True"
        claim.wait(0)
        assert not claim.take()
        assert claim.holder_pid == holder.process.pid


def test_those_who_waited_and_left_keep_nobody_from_seeing_whose_it_is(unique_node: str, hold: Hold) -> None:
    """The kernel keeps what they leave behind, as a supervisor leaves that starts one again every 2 s."""
    holder = hold()
    for _ in range(200):
        with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
            assert not claim.take()
    assert _open_files(holder) < 50


def _open_files(holder: Holder) -> int:
    return sum(1 for _ in Path(f"/proc/{holder.process.pid}/fd").iterdir())


def test_a_crowd_that_waits_keeps_nobody_from_seeing_whose_it_is(unique_node: str, hold: Hold) -> None:
    """Nor does it use up what the one that has it may have open."""
    holder = hold()
    with ExitStack() as stack:
        crowd = [stack.enter_context(closing(NodeClaim(unique_node, STORE, STATE))) for _ in range(200)]
        assert not any(claim.take() for claim in crowd)
        assert _open_files(holder) < 100
        for claim in (crowd[0], crowd[-1]):
            claim.wait(0)
            assert not claim.take()
        holder.process.kill()
        crowd[0].wait(60)
        assert crowd[0].take()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_keeps_nobody_from_measuring_a_node(unique_node: str, hold: Hold) -> None:
    """A tenant who takes the name is told of, and not waited for. Root is believed by everyone."""
    tenant = hold("os.setuid(65534)")
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim, structlog.testing.capture_logs() as logs:
        assert claim.take()
    (log,) = logs
    assert (log["event"], log["pid"], log["uid"]) == ("node_claim_not_believed", tenant.process.pid, 65534)
    tenant.process.kill()
    tenant.process.wait()
    with closing(NodeClaim(unique_node, STORE, STATE)) as claim:
        assert claim.take()
        assert hold("os.setuid(65534)").answer == "False"


@pytest.mark.parametrize("waiting", [None, 0], ids=["it does not listen", "more wait than it takes"])
def test_a_name_that_does_not_answer_keeps_nobody_from_measuring_a_node(unique_node: str, waiting: int | None) -> None:
    """Nothing is known of who has it."""
    name = NodeClaim(unique_node, STORE, STATE).name
    with ExitStack() as stack:
        squatter = stack.enter_context(socket.socket(socket.AF_UNIX))
        squatter.bind(name)
        if waiting is not None:
            squatter.listen(waiting)
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(name)
        claim = stack.enter_context(closing(NodeClaim(unique_node, STORE, STATE)))
        with structlog.testing.capture_logs() as logs:
            assert claim.take()
    assert [log["event"] for log in logs] == ["node_claim_not_believed"]
