"""One collector of a machine tells of a node, whoever else was started."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
import structlog

from collector.node_claim import NodeClaim
from tests.collector.claims import HOLDER, STORE, Hold, holders, unclaimed_node


@pytest.fixture
def node() -> str:
    return unclaimed_node()


@pytest.fixture
def hold(node: str) -> Iterator[Hold]:
    with holders(node) as start:
        yield start


def test_the_first_has_it_and_who_comes_later_when_that_has_ended_however_it_ends(node: str, hold: Hold) -> None:
    first = hold()
    with closing(NodeClaim(node, STORE)) as claim:
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


def test_it_is_free_when_it_was_given_up(node: str, hold: Hold) -> None:
    claim = NodeClaim(node, STORE)
    assert claim.take()
    claim.close()
    assert hold().answer == "True"


@pytest.mark.parametrize("store", ["http://127.0.0.1:8429", "http://127.0.0.1:8428/select", "http://other:8428"])
def test_collectors_of_one_name_that_tell_different_stores_are_no_concern_of_each_other(
    node: str, hold: Hold, store: str
) -> None:
    assert hold(store=store).answer == "True"
    with closing(NodeClaim(node, STORE)) as claim:
        assert claim.take()


def test_a_password_of_the_store_is_in_no_name(node: str, hold: Hold) -> None:
    """Nor does it make another claim: both tell the same store."""
    assert hold(store="http://me:secret@127.0.0.1:8428").answer == "True"
    with closing(NodeClaim(node, STORE)) as claim:
        assert not claim.take()


def test_one_that_becomes_a_new_program_keeps_it(node: str, hold: Hold) -> None:
    """As a collector does whose driver was exchanged: nobody comes between."""
    again = "claim.take(); claim.hand_on(); os.execv(sys.executable, [sys.executable, '-c', {!r}, *sys.argv[1:3]])"
    holder = hold(again.format(HOLDER.format("")))
    assert holder.answer == "True"
    with closing(NodeClaim(node, STORE)) as claim:
        assert not claim.take()
        assert claim.holder_pid == holder.process.pid
        holder.process.kill()
        claim.wait(60)
        assert claim.take()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_keeps_nobody_from_measuring_a_node(node: str, hold: Hold) -> None:
    """A tenant who takes the name is told of, and not waited for. Root is believed by everyone."""
    tenant = hold("os.setuid(65534)")
    with closing(NodeClaim(node, STORE)) as claim, structlog.testing.capture_logs() as logs:
        assert claim.take()
    (log,) = logs
    assert (log["event"], log["pid"], log["uid"]) == ("node_claim_not_believed", tenant.process.pid, 65534)
    tenant.process.kill()
    tenant.process.wait()
    with closing(NodeClaim(node, STORE)) as claim:
        assert claim.take()
        assert hold("os.setuid(65534)").answer == "False"


@pytest.mark.parametrize("waiting", [None, 0], ids=["it does not listen", "more wait than it takes"])
def test_a_name_that_does_not_answer_keeps_nobody_from_measuring_a_node(node: str, waiting: int | None) -> None:
    """Nothing is known of who has it."""
    name = NodeClaim(node, STORE).name
    with ExitStack() as stack:
        squatter = stack.enter_context(socket.socket(socket.AF_UNIX))
        squatter.bind(name)
        if waiting is not None:
            squatter.listen(waiting)
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(name)
        claim = stack.enter_context(closing(NodeClaim(node, STORE)))
        with structlog.testing.capture_logs() as logs:
            assert claim.take()
    assert [log["event"] for log in logs] == ["node_claim_not_believed"]
