"""A log that cannot be taken as it is said is refused before the first byte, and a store that lost some is an error."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_import import import_log
from domain.clock import FrozenClock, SystemClock
from domain.errors import ConflictError, InputError, UnavailableError
from domain.period import format_instant
from domain.series import GPU_BUSY, GPU_MEMORY_USED, Series
from gputab.cli import run
from gputab.commands.samples import ReaderSamples
from machine.process import free_port
from tests.collector.sample_logs import START_S, Import, stored, write_log
from tests.collector.stores import merging_store, unchecked
from tests.victoriametrics_server import start
from victoriametrics.push import Pusher
from victoriametrics.read import Reader


@pytest.mark.parametrize(
    ("before", "after", "column", "values"),
    [
        (("0.5", "5000"), ("0.5", "3000"), "gpu_memory_used_bytes", "5000 in the store.* above 3000"),
        (("0.9", "5000"), ("0.5", "5000"), "gpu_busy_ratio", "0.9 in the store.* above 0.5"),
    ],
)
def test_a_corrected_log_with_lower_values_is_refused_before_the_first_byte(
    tmp_path: Path,
    unique_node: str,
    reader: Reader,
    do_import: Import,
    before: tuple[str, str],
    after: tuple[str, str],
    column: str,
    values: str,
) -> None:
    """Of two values for one second the store keeps the larger: the correction would succeed and change nothing."""
    first = [f"{START_S + second},NODE,GPU-1,{before[0]},{before[1]}" for second in range(20)]
    do_import(write_log(tmp_path, unique_node, *first))
    corrected = [f"{START_S + second},NODE,GPU-1,{before[0]},{before[1]}" for second in range(15)]
    corrected += [f"{START_S + second},NODE,GPU-1,{after[0]},{after[1]}" for second in range(15, 30)]

    with pytest.raises(ConflictError, match=rf"{column} of 'GPU-1' is {values}") as raised:
        do_import(write_log(tmp_path, unique_node, *corrected))

    message = str(raised.value)
    assert repr(unique_node) in message
    assert format_instant((START_S + 15) * 1_000_000) in message
    assert message.splitlines() == [message]
    assert message.endswith("then import all of it again")
    assert set(stored(reader, unique_node, GPU_MEMORY_USED)) == set(range(START_S, START_S + 20)), "nothing was sent"


def test_the_command_names_the_node_and_the_remedy(
    tmp_path: Path,
    unique_node: str,
    victoriametrics_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    assert run(["samples", "import", str(write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,5000"))]) == 0
    assert run(["samples", "import", str(write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,5000"))]) == 0
    capsys.readouterr()

    assert run(["samples", "import", str(write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,3000"))]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"gpu_memory_used_bytes of 'GPU-1' is 5000 in the store for '{unique_node}'" in line
    assert "/api/v1/admin/tsdb/delete_series" in line


def test_one_bad_cell_and_nothing_is_sent(tmp_path: Path, unique_node: str, reader: Reader, do_import: Import) -> None:
    lines = [f"{START_S + second},NODE,GPU-1,0.5,1" for second in range(500)]
    with pytest.raises(InputError, match=r"line 502: gpu_busy_ratio '1.5': no card can have it"):
        do_import(write_log(tmp_path, unique_node, *lines, f"{START_S + 500},NODE,GPU-1,1.5,1"))

    assert stored(reader, unique_node, GPU_BUSY) == {}


def test_a_log_from_days_ahead_is_refused_before_the_first_byte(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """The store would take it, answer yes, and drop it."""
    ahead_s = SystemClock().now_us() // 1_000_000 + 5 * 86_400
    with pytest.raises(InputError, match="takes nothing after"):
        do_import(
            write_log(tmp_path, unique_node, f"{ahead_s - 86_400 * 5},NODE,GPU-1,0.5,1", f"{ahead_s},NODE,GPU-1,0.5,1")
        )

    assert stored(reader, unique_node, GPU_BUSY, ahead_s - 86_400 * 6, ahead_s) == {}


def test_a_log_older_than_the_retention_is_refused_before_the_first_byte(
    tmp_path: Path, unique_node: str, victoriametrics_binary: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        start(binary=victoriametrics_binary, port=port, folder=tmp_path / "store", retention="35d"),
        Pusher(url) as pusher,
        Reader(url) as reader,
    ):
        path = write_log(tmp_path, unique_node, "1662858720,NODE,GPU-1,0.5,1")
        with pytest.raises(InputError, match="keeps nothing from before"):
            import_log(SampleFile(path), pusher, SystemClock(), ReaderSamples(reader), unchecked)
        assert not any(pusher.dropped_rows().values())


def test_a_store_that_would_merge_seconds_is_refused_before_the_first_byte(
    tmp_path: Path,
    unique_node: str,
    victoriametrics_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the command: one line with the value and the remedy, and nothing is stored."""
    path = write_log(tmp_path, unique_node, *[f"{START_S + second},NODE,GPU-1,0.5,1" for second in range(60)])
    monkeypatch.chdir(tmp_path)
    with merging_store(victoriametrics_binary, tmp_path, "10s") as url, Reader(url) as reader:
        monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)

        assert run(["samples", "import", str(path)]) == 1

        (line,) = capsys.readouterr().err.splitlines()
        assert "-dedup.minScrapeInterval is '10s'; start it with 1s" in line
        with Pusher(url) as pusher:
            pusher.flush()
        assert stored(reader, unique_node, GPU_BUSY) == {}


@pytest.mark.parametrize(("hold_s", "lines"), [(0, ["1,NODE,GPU-1,0.5,1"]), (None, []), (None, ["1,NODE,GPU-1,,"])])
def test_an_import_of_nothing_is_refused(
    tmp_path: Path, unique_node: str, do_import: Import, hold_s: int | None, lines: list[str]
) -> None:
    with pytest.raises(InputError, match=r"cannot (import|hold)"):
        do_import(write_log(tmp_path, unique_node, *lines), hold_s=hold_s)


class ForgetfulStore:
    """Says that it has `kept` samples, none of them of any second that is asked for."""

    def __init__(self, kept: int) -> None:
        self._kept = kept

    def count(self, _series: tuple[Series, ...], _node: str, _start_s: int, _end_s: int) -> int:
        return self._kept

    def values(self, _series: Series, _labels: Mapping[str, str], _start_s: int, _end_s: int) -> dict[int, float]:
        return {}


def test_a_store_that_did_not_keep_everything_is_an_error(tmp_path: Path, unique_node: str, pusher: Pusher) -> None:
    path = write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,0.5,1")

    with pytest.raises(UnavailableError, match=r"of 2 samples of .* the store has 1"):
        import_log(SampleFile(path), pusher, FrozenClock(SystemClock().now_us()), ForgetfulStore(kept=1), unchecked)


class LateStore(ForgetfulStore):
    """Goes on for a while to say what it said before there was anything."""

    def __init__(self, kept: int, asked: int) -> None:
        super().__init__(kept)
        self._asked = asked

    def count(self, _series: tuple[Series, ...], _node: str, _start_s: int, _end_s: int) -> int:
        self._asked -= 1
        return 0 if self._asked >= 0 else self._kept


def test_a_store_that_shows_late_what_it_kept_is_asked_again(tmp_path: Path, unique_node: str, pusher: Pusher) -> None:
    path = write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,0.5,1")
    clock = FrozenClock(SystemClock().now_us())

    assert import_log(SampleFile(path), pusher, clock, LateStore(kept=2, asked=10), unchecked).samples == 2


def test_a_store_that_is_down_is_one_line(tmp_path: Path, unique_node: str) -> None:
    path = write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,0.5,1")
    with Pusher(f"http://127.0.0.1:{free_port()}") as pusher, pytest.raises(UnavailableError, match="no answer"):
        import_log(SampleFile(path), pusher, SystemClock(), ForgetfulStore(kept=0), unchecked)
