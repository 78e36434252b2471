"""An import that cannot be whole says so, truly, and what others do at the store meanwhile is no fault of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_import import ImportReport, import_log
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, FrozenClock, SystemClock
from domain.errors import InputError, UnavailableError
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_MEMORY_USED, Series
from gputab.commands.samples import ReaderSamples
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_000
HEADER = "time,node,gpu_uuid,gpu_memory_used_bytes\n"
REQUEST_SAMPLES = 400_000


@pytest.fixture
def reader(victoriametrics_url: str) -> Iterator[Reader]:
    with Reader(victoriametrics_url) as reader:
        yield reader


class WatchedPusher(Pusher):
    """Pushes, and keeps how many samples each request had."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.requests: list[int] = []

    def push(self, body: bytes, packed: bytes | None = None) -> None:
        self.requests.append(sum(len(json.loads(line)["timestamps"]) for line in body.splitlines()))
        super().push(body, packed)


@pytest.fixture
def pusher(victoriametrics_url: str) -> Iterator[WatchedPusher]:
    with WatchedPusher(victoriametrics_url) as pusher:
        yield pusher


def _log(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def _import(path: Path, pusher: Pusher, reader: Reader, *, now_s: int | None = None) -> ImportReport:
    clock = SystemClock() if now_s is None else FrozenClock(now_s * MICROSECONDS)
    return import_log(SampleFile(path), pusher, clock, ReaderSamples(reader), lambda: None)


def _count(reader: Reader, node: str, series: Series = GPU_MEMORY_USED) -> int:
    return reader.count(Selector((series,), {"node": node}), START_S - 10_000_000, START_S + 100_000)


@pytest.mark.parametrize("cell", ["1e99999999", "-1e99999999", "1e19", "12345678901234567890123.5"])
def test_a_short_cell_of_a_huge_number_is_refused_before_it_is_made(tmp_path: Path, cell: str) -> None:
    """As a whole number it would take hours and gigabytes."""
    file = SampleFile(_log(tmp_path, f"{START_S},n,g,{cell}"))
    assert list(file.rows(lambda _: None)) == []
    assert file.problems == [f"line 2: gpu_memory_used_bytes {cell!r}: no card can have it"]


def test_a_zero_of_any_length_is_a_zero(tmp_path: Path) -> None:
    file = SampleFile(_log(tmp_path, f"{START_S},n,g,0e99999999", f"{START_S + 1},n,g,1e-99999999"))
    assert [dict(row.values) for row in file.rows(lambda _: None)] == [{GPU_MEMORY_USED: 0}] * 2
    assert file.cut_cells == 1


@pytest.mark.parametrize("added", ["5,NODE,g2,7", "500,NODE,g,7", "500,NODE,g,oops", "5,NODE,g"])
def test_a_log_that_grows_between_two_readings_is_refused(
    tmp_path: Path, unique_node: str, victoriametrics_url: str, reader: Reader, added: str
) -> None:
    """A row of a new card, of an old one, one that is no row: what the first reading allowed is not what is there."""
    path = _log(tmp_path, *(f"{START_S + second},{unique_node},g,5" for second in range(5)))
    second, _, rest = added.replace("NODE", unique_node).partition(",")

    class Growing(Pusher):
        def refuse_unkept(self, first_s: int, last_s: int, now_s: int) -> None:
            with path.open("a") as log:
                log.write(f"{START_S + int(second)},{rest}\n")
            super().refuse_unkept(first_s, last_s, now_s)

    with Growing(victoriametrics_url) as pusher, pytest.raises(UnavailableError) as raised:
        _import(path, pusher, reader)

    message = str(raised.value)
    assert message == (
        f"cannot import {str(path)!r}: it changed while it was read, and nothing was sent; import it again when "
        "nothing writes to it any more"
    )
    with Pusher(victoriametrics_url) as other:
        other.flush()
        assert _count(reader, unique_node) == 0
        assert _import(_log(tmp_path, f"{START_S},{unique_node},g,5"), other, reader).samples == 1


def test_a_log_that_changes_after_the_first_request_is_refused_and_what_was_sent_is_said(
    tmp_path: Path, unique_node: str, victoriametrics_url: str, reader: Reader
) -> None:
    path = _log(tmp_path, f"{START_S - 600_000},{unique_node},g,5", f"{START_S},{unique_node},g,5")

    class Touching(Pusher):
        def push(self, body: bytes, packed: bytes | None = None) -> None:
            os.utime(path, (START_S, START_S))
            super().push(body, packed)

    with Touching(victoriametrics_url) as pusher, pytest.raises(UnavailableError) as raised:
        _import(path, pusher, reader)

    assert "it changed while it was read, and 400000 samples of it were sent; import it again" in str(raised.value)
    with Pusher(victoriametrics_url) as other:
        other.flush()
    assert _count(reader, unique_node) == 400_000
    assert _count(reader, unique_node, COLLECTOR_COMPLETE_UNTIL) == 0


def test_a_pipe_is_refused_at_once_with_the_remedy(tmp_path: Path, victoriametrics_url: str) -> None:
    """By the command, as a named pipe and behind `cat log |`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    environment = {**os.environ, "GPUTAB_VICTORIAMETRICS_URL": victoriametrics_url}
    for path in (str(pipe), "/dev/stdin"):
        done = subprocess.run(
            [sys.executable, "-m", "gputab", "samples", "import", path],
            input=HEADER + f"{START_S},n,g,5\n",
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.endswith("write them to a file first")
        assert repr(path) in line


def test_a_long_hold_is_sent_in_requests_of_the_usual_size(
    tmp_path: Path, unique_node: str, pusher: WatchedPusher, reader: Reader
) -> None:
    """Two rows a week apart are a million samples, and never all of them at once in memory."""
    week_s = 7 * 86_400
    path = _log(tmp_path, f"{START_S - week_s},{unique_node},g,5", f"{START_S},{unique_node},g,6")

    done = _import(path, pusher, reader)

    assert done.samples == sum(pusher.requests) - 1 == 2 * week_s, "and one mark"
    assert max(pusher.requests) == REQUEST_SAMPLES
    frame = reader.export(Selector((GPU_MEMORY_USED,), {"node": unique_node}), START_S - 3, START_S + 3).frame
    assert frame["value"].to_list() == [5, 5, 5, 6, 6, 6]


@pytest.mark.parametrize(
    ("first_s", "step_s", "time", "remedy"),
    [
        (36_000, 1, "2026-09-22T00:13:21Z", "check the zone of its times"),
        (-90, 60, "2026-09-21T14:12:50Z", "import it then, or state a shorter hold"),
    ],
    ids=["a wrong zone", "a hold"],
)
def test_samples_of_times_to_come_are_refused(
    tmp_path: Path,
    unique_node: str,
    pusher: WatchedPusher,
    reader: Reader,
    first_s: int,
    step_s: int,
    time: str,
    remedy: str,
) -> None:
    """Nobody has seen them: not what a log of another zone says, nor what a hold would have of the next seconds."""
    path = _log(tmp_path, *(f"{START_S + first_s + n * step_s},{unique_node},g,5" for n in range(2)))

    with pytest.raises(InputError) as raised:
        _import(path, pusher, reader, now_s=START_S)

    assert f"{unique_node!r} has a reading of '{time}' that stands until '2026-" in str(raised.value)
    assert str(raised.value).endswith(f"Nothing was sent; {remedy}")
    assert pusher.requests == []


def test_samples_up_to_the_present_are_taken(
    tmp_path: Path, unique_node: str, pusher: WatchedPusher, reader: Reader
) -> None:
    path = _log(tmp_path, f"{START_S - 1},{unique_node},g,5", f"{START_S},{unique_node},g,5")
    assert _import(path, pusher, reader, now_s=START_S).end_s == START_S + 1


@pytest.mark.parametrize("owner_s", [START_S, START_S + 3], ids=["in the same second", "while the device stands"])
def test_a_log_with_owners_beyond_their_device_is_refused_before_the_first_byte(
    tmp_path: Path, unique_node: str, pusher: WatchedPusher, reader: Reader, owner_s: int
) -> None:
    path = tmp_path / "log.csv"
    rows = [(START_S, "", 5, ""), (owner_s, "a", "", 50), (START_S + 10, "", 5, "")]
    lines = [f"{time},{unique_node},g,{owner},{used},{owned}" for time, owner, used, owned in rows]
    path.write_text("\n".join(["time,node,gpu_uuid,owner,gpu_memory_used_bytes,gpu_owner_memory_bytes", *lines]))

    with pytest.raises(InputError, match="line 3: gpu_owner_memory_bytes '50': the owners of the device have 50 bytes"):
        _import(path, pusher, reader)

    assert pusher.requests == []


class CrowdedPusher(Pusher):
    """Beside each request somebody else sends what the store drops."""

    def push(self, body: bytes, packed: bytes | None = None) -> None:
        super().push(body, packed)
        ahead_s = SystemClock().now_us() // MICROSECONDS + 30 * 86_400
        super().push(encode([one_sample(GPU_MEMORY_USED, {"node": "other", "gpu_uuid": "g"}, ahead_s, 5)]))


class ForgetfulStore:
    """Has nothing."""

    def count(self, _series: tuple[Series, ...], _node: str, _start_s: int, _end_s: int) -> int:
        return 0

    def values(self, _series: Series, _labels: Mapping[str, str], _start_s: int, _end_s: int) -> dict[int, float]:
        return {}


def test_rows_of_others_that_the_store_drops_are_no_fault_of_an_import(
    tmp_path: Path, unique_node: str, victoriametrics_url: str, reader: Reader
) -> None:
    path = _log(tmp_path, *(f"{START_S + second},{unique_node},g,5" for second in range(5)))
    with CrowdedPusher(victoriametrics_url) as pusher:
        assert _import(path, pusher, reader).samples == 5


def test_what_the_store_dropped_is_told_where_samples_are_missing(
    tmp_path: Path, unique_node: str, victoriametrics_url: str
) -> None:
    path = _log(tmp_path, f"{START_S},{unique_node},g,5")
    with CrowdedPusher(victoriametrics_url) as pusher, pytest.raises(UnavailableError) as raised:
        import_log(SampleFile(path), pusher, FrozenClock(SystemClock().now_us()), ForgetfulStore(), lambda: None)

    message = str(raised.value)
    assert "of 1 samples of " in message
    assert "dropped 2 big_timestamp of all rows it was sent meanwhile" in message


class LingeringPusher(Pusher):
    """Flushes when the store has made new series searchable by itself, but has not forgotten what it found before."""

    def flush(self) -> None:
        SystemClock().sleep_s(2)
        super().flush()


def test_a_store_that_still_knows_what_it_found_before_is_asked_again(
    tmp_path: Path, unique_node: str, victoriametrics_url: str, reader: Reader
) -> None:
    """What a selector finds is remembered for some ten seconds: here, that there is nothing of the node."""
    path = _log(tmp_path, *(f"{START_S + second},{unique_node},g,5" for second in range(5)))
    with LingeringPusher(victoriametrics_url) as pusher:
        assert _import(path, pusher, reader).samples == 5


class LosingPusher(Pusher):
    """Takes everything and sends nothing."""

    def push(self, body: bytes, packed: bytes | None = None) -> None:
        """Says yes."""


def test_samples_that_were_there_before_do_not_stand_for_those_that_were_lost(
    tmp_path: Path, unique_node: str, victoriametrics_url: str, pusher: WatchedPusher, reader: Reader
) -> None:
    """Of another card, and of the same card at half of the seconds."""
    before = [f"{START_S + second},{unique_node},g{card},5" for second in range(0, 20, 2) for card in range(3)]
    import_log(
        SampleFile(_log(tmp_path, *before)), pusher, SystemClock(), ReaderSamples(reader), lambda: None, hold_s=1
    )
    path = _log(tmp_path, *(f"{START_S + second},{unique_node},g0,5" for second in range(20)))

    with LosingPusher(victoriametrics_url) as losing, pytest.raises(UnavailableError, match=r"has 30, where .* 40 "):
        _import(path, losing, reader, now_s=SystemClock().now_us() // MICROSECONDS)

    assert _import(path, pusher, reader).samples == 20
    assert _count(reader, unique_node) == 40
