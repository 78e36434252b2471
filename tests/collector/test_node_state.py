"""What a node remembers survives restarts, and a file that was damaged costs no start."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.node_state import GivenOut, HeardLog, NodeState, node_state_path
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from tests.collector.disks import descriptors_of

INSTANCE = MigInstance("MIG-1", 3, "2g.20gb", 0, 2, 32, 2**34, generation=4)
DEVICES = (
    Device("GPU-1", 0, "NVIDIA H100 80GB HBM3", 2**36, 2**29, True, 132, "00000000:65:00.0", "590.48.01", 0, "hopper",
           "96.00", 1, (INSTANCE,)),
    Device("GPU-2", 1, "NVIDIA GeForce RTX 4090", 2**34, 2**28),
)  # fmt: skip


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "node.json"
    state = NodeState(path, "boot-1")
    state.save()
    assert not path.exists(), "there is nothing to remember yet"
    state.keep(devices=DEVICES, instances={"GPU-1": {3: GivenOut(4, "x", is_there=True)}}, xids={"GPU-2": {"79": 1}})
    state.keep(log=HeardLog(4_711, (("GPU-2", 79),)))
    state.save()

    again = NodeState(path, "boot-1")
    assert again.remembered == state.remembered
    assert again.remembered.devices == DEVICES
    assert list(path.parent.iterdir()) == [path]


def test_after_a_boot_no_instance_is_there(tmp_path: Path) -> None:
    state = NodeState(tmp_path / "node.json", "boot-1")
    state.keep(devices=DEVICES, instances={"GPU-1": {3: GivenOut(4, "x", is_there=True)}})
    state.save()

    again = NodeState(tmp_path / "node.json", "boot-2").remembered
    assert again.instances == {"GPU-1": {3: GivenOut(4, "x", is_there=False)}}
    assert (again.boot, again.devices) == ("boot-2", DEVICES)


def test_nothing_is_written_where_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    state = NodeState(path)
    state.keep(devices=DEVICES)
    state.save()
    os.utime(path, (0, 0))
    state.keep(devices=tuple(DEVICES))
    state.save()
    assert path.stat().st_mtime == 0
    state.keep(devices=DEVICES[:1])
    state.save()
    assert path.stat().st_mtime > 0, "or this shows nothing"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": 2}',
        b'{"devices": [{"uuid": 1}]}',
        b'{"xids": {"GPU-1": {"79": "many"}}}',
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_file_is_set_aside_and_said(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(damage)

    with capture_logs() as logs:
        state = NodeState(path)

    assert state.remembered.devices == ()
    (said,) = logs
    assert said["event"] == "node_state_damaged"
    assert Path(said["set_aside"]).read_bytes() == damage
    state.keep(devices=DEVICES)
    state.save()
    assert NodeState(path).remembered.devices == DEVICES


def test_a_file_of_somebody_else_is_an_error_not_an_empty_memory(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.mkdir()
    with pytest.raises(UnavailableError, match="make the collector's user own it"):
        NodeState(path)


def test_a_disk_that_takes_nothing_is_said_once_and_tried_again(tmp_path: Path) -> None:
    """A folder that is a file takes nothing from anybody, root included."""
    blocked = tmp_path / "folder"
    state = NodeState(blocked / "node.json")
    blocked.write_text("no folder")
    state.keep(devices=DEVICES)
    with capture_logs() as logs:
        state.save()
        state.save()
    assert [log["event"] for log in logs] == ["node_state_not_written"]
    blocked.unlink()
    state.save()
    assert NodeState(blocked / "node.json").remembered.devices == DEVICES


def test_each_node_has_a_file_of_its_own(tmp_path: Path) -> None:
    assert node_state_path(tmp_path, "gpu/1").parent == tmp_path
    assert node_state_path(tmp_path, "gpu/1") != node_state_path(tmp_path, "gpu-1")


def test_who_takes_a_node_over_knows_what_both_knew(tmp_path: Path) -> None:
    """Of counts and generations the greater, of the log what neither has heard; the other's file stays as it is."""
    former, last = NodeState(tmp_path / "former.json", "boot-1"), NodeState(tmp_path / "last.json", "boot-1")
    there, away = GivenOut(4, "x", is_there=True), GivenOut(5, "y", is_there=False)
    former.keep(
        devices=DEVICES[:1],
        instances={"GPU-1": {3: there, 4: away}, "GPU-9": {1: there}},
        xids={"GPU-1": {"31": 5, "48": 1}},
        log=HeardLog(100),
    )
    last.keep(
        devices=DEVICES[1:],
        instances={"GPU-1": {3: away, 4: there}},
        xids={"GPU-1": {"31": 2}, "GPU-2": {"79": 1}},
        log=HeardLog(200),
    )
    last.save()
    written = (tmp_path / "last.json").read_bytes()
    former.take_over(tmp_path / "last.json")

    now = former.remembered
    assert now.devices == (*DEVICES[1:], *DEVICES[:1])
    assert now.instances == {"GPU-1": {3: away, 4: away}, "GPU-9": {1: there}}
    assert now.xids == {"GPU-1": {"31": 5, "48": 1}, "GPU-2": {"79": 1}}
    assert now.log == HeardLog(200)
    assert (tmp_path / "last.json").read_bytes() == written


def test_what_was_put_down_in_another_boot_is_taken_over_as_after_a_boot(tmp_path: Path) -> None:
    last = NodeState(tmp_path / "last.json", "boot-1")
    last.keep(devices=DEVICES, instances={"GPU-1": {3: GivenOut(4, "x", is_there=True)}}, log=HeardLog(200))
    last.save()
    state = NodeState(tmp_path / "node.json", "boot-2")
    state.take_over(tmp_path / "last.json")
    assert (state.remembered.boot, state.remembered.devices) == ("boot-2", DEVICES)
    assert state.remembered.instances == {"GPU-1": {3: GivenOut(4, "x", is_there=False)}}
    assert state.remembered.log == HeardLog(), "all of this boot's log is unheard"


def test_where_it_is_not_known_how_much_of_the_log_was_counted_none_of_it_is_counted_again(tmp_path: Path) -> None:
    last = NodeState(tmp_path / "last.json", "boot-1")
    last.keep(xids={"GPU-1": {"31": 2}})
    last.save()
    state = NodeState(tmp_path / "node.json", "boot-1")
    state.keep(log=HeardLog(100))
    state.take_over(tmp_path / "last.json")
    assert state.remembered.log is None


@pytest.mark.parametrize("text", [b"{", b'{"format": 2}'])
def test_what_cannot_be_taken_over_is_said_and_left_alone(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "last.json").write_bytes(text)
    state = NodeState(tmp_path / "node.json")
    state.keep(devices=DEVICES)
    with capture_logs() as logs:
        state.take_over(tmp_path / "last.json")
        state.take_over(tmp_path / "none.json")
    assert state.remembered.devices == DEVICES
    assert [log["event"] for log in logs] == 2 * ["node_state_not_taken_over"]
    assert (tmp_path / "last.json").read_bytes() == text


def test_a_number_that_who_was_last_counted_less_is_given_out_anew(tmp_path: Path) -> None:
    """Nobody who counted as far has seen the last of it."""
    last = NodeState(tmp_path / "last.json", "boot-1")
    last.keep(instances={"GPU-1": {3: GivenOut(2, "y", is_there=True)}})
    last.save()
    state = NodeState(tmp_path / "node.json", "boot-1")
    state.keep(instances={"GPU-1": {3: GivenOut(4, "x", is_there=True)}})
    state.take_over(tmp_path / "last.json")
    assert state.remembered.instances == {"GPU-1": {3: GivenOut(4, "x", is_there=False)}}
    assert NodeState(tmp_path / "node.json", "boot-1").remembered == state.remembered, "it is on the disk"


def test_only_a_file_of_ours_is_taken_over(tmp_path: Path) -> None:
    """No pipe, on which nobody writes, nor what never ends; nor what is called as our own is in another container."""
    state = NodeState(tmp_path / "node.json")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**30)
    for path, reason in (
        (tmp_path / "pipe", "it is no file of ours"),
        (Path("/dev/zero"), "it is no file of ours"),
        (tmp_path / "large", "it is no file of ours"),
        (tmp_path, "Is a directory"),
        (tmp_path / "node.json", "it is called as ours is"),
    ):
        with capture_logs() as logs:
            state.take_over(path)
        assert [log["event"] for log in logs] == ["node_state_not_taken_over"]
        assert logs[0]["reason"].startswith(reason)
        assert descriptors_of(path) == []
