"""Records of the kernel's log, each heard once, whoever reads it again."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from collector.kernel_records import KernelRecords
from tests.collector.disks import descriptors_of
from tests.collector.packet_log import PacketLog


@pytest.fixture
def device() -> Iterator[PacketLog]:
    with closing(PacketLog()) as log:
        yield log


def test_what_is_there_is_not_heard_where_nothing_was_heard_before(device: PacketLog, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("old\n")
    device.write(7, "old")
    for path in (device.path, file):
        with closing(KernelRecords(path, None)) as records:
            assert list(records.unheard()) == []
            assert (records.heard_until, records.lost, records.is_another) == (
                8 if path == device.path else 4,
                0,
                False,
            )


def test_each_record_of_the_device_is_heard_once(device: PacketLog) -> None:
    device.write(7, "heard")
    device.write(8, "new; of two parts")
    with closing(KernelRecords(device.path, 8)) as records:
        assert list(records.unheard()) == ["4,8,98765432,-;new; of two parts"]
        assert list(records.unheard()) == []
        device.write(9, "newer")
        assert list(records.unheard()) == ["4,9,98765432,-;newer"]
        assert (records.heard_until, records.lost, records.is_another) == (10, 0, False)


def test_each_line_of_a_file_is_heard_once(tmp_path: Path) -> None:
    """Also one that is in the form of a record."""
    file = tmp_path / "log"
    file.write_text("4,7,1,-;heard\n4,8,2,-;new\n KEY=a\nhal")
    with closing(KernelRecords(file, len("4,7,1,-;heard\n"))) as records:
        assert list(records.unheard()) == ["4,8,2,-;new", " KEY=a"]
        until = records.heard_until
        with file.open("a") as log:
            log.write("f\n")
        assert list(records.unheard()) == ["half"]
    with closing(KernelRecords(file, until)) as records:
        assert list(records.unheard()) == ["half"], "who ended in between has not heard it"
        assert records.lost == 0


def test_records_that_were_overwritten_unheard_are_counted(device: PacketLog) -> None:
    """Those from where it was heard to up to the oldest that is left, and later where the reader is too slow."""
    device.write(20, "oldest that is left")
    with closing(KernelRecords(device.path, 8)) as records:
        assert [text[-4:] for text in records.unheard()] == ["left"]
        assert (records.lost, records.heard_until) == (12, 21)
        device.write(24, "after three more")
        assert len(list(records.unheard())) == 1
        assert records.lost == 15


def test_a_place_that_is_overwritten_is_passed_over(device: PacketLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers EPIPE once, and then what is left."""
    device.write(20, "left")
    answers, read = [errno.EPIPE], os.read

    def overwritten_once(descriptor: int, size: int) -> bytes:
        if answers:
            raise OSError(answers.pop(), "overwritten")
        return read(descriptor, size)

    with closing(KernelRecords(device.path, 8)) as records:
        monkeypatch.setattr(os, "read", overwritten_once)
        heard = list(records.unheard())
        monkeypatch.undo()
    assert (heard, records.lost, answers) == (["4,20,98765432,-;left"], 12, [])


def test_a_log_that_ends_before_what_was_heard_of_it_is_another(device: PacketLog, tmp_path: Path) -> None:
    """A file that was truncated; a machine that was set back to a snapshot."""
    file = tmp_path / "log"
    file.write_text("new\n")
    device.write(7, "new")
    for path in (device.path, file):
        with closing(KernelRecords(path, 100)) as records:
            assert list(records.unheard()) == []
            assert records.is_another
            records.skip()
            assert not records.is_another
            if path == file:
                with file.open("a") as log:
                    log.write("newer\n")
            else:
                device.write(8, "newer")
            assert [text[-5:] for text in records.unheard()] == ["newer"]
            assert records.lost == 0


def test_a_log_that_opens_and_cannot_be_read_is_closed(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        KernelRecords(tmp_path, None)
    assert descriptors_of(tmp_path) == []


def test_a_device_that_has_no_records_is_read_by_lines(device: PacketLog) -> None:
    """In some containers /dev/kmsg is a link to a console."""
    with closing(KernelRecords(device.path, None)) as records:
        device.write_bytes(b"login: \nNVRM: Xid (PCI:0000:ae:00): 79, pid=1\n")
        assert list(records.unheard()) == ["login: ", "NVRM: Xid (PCI:0000:ae:00): 79, pid=1"]
