"""What a log says is in the store afterwards, to the byte-second, or nothing is."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from collector.history_csv import write_history
from collector.history_plan import plan_history
from collector.sample_import import ImportReport, import_samples
from collector.simulated_fleet import demo_fleet
from collector.truth import truth
from domain.clock import SystemClock
from domain.errors import ConflictError, InputError, UnavailableError
from domain.period import format_instant
from domain.samples import allocation_owner
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_BUSY, GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY, Series
from gputab.cli import run
from gputab.commands.samples import ReaderSamples
from machine.process import Child, free_port
from tests import alibaba
from victoriametrics import launcher
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_000


@pytest.fixture
def pusher(victoriametrics_url: str) -> Iterator[Pusher]:
    with Pusher(victoriametrics_url) as pusher:
        yield pusher


@pytest.fixture
def reader(victoriametrics_url: str) -> Iterator[Reader]:
    with Reader(victoriametrics_url) as reader:
        yield reader


class ForgetfulStore:
    """Says that it has `kept` samples, none of them of any second that is asked for."""

    def __init__(self, kept: int) -> None:
        self._kept = kept

    def count(self, _series: tuple[Series, ...], _node: str, _start_s: int, _end_s: int) -> int:
        return self._kept

    def values(self, _series: Series, _labels: Mapping[str, str], _start_s: int, _end_s: int) -> dict[int, float]:
        return {}


def _unchecked() -> None:
    """For a store that is known to be good, or is to fail later."""


Import = Callable[..., ImportReport]


@pytest.fixture
def do_import(pusher: Pusher, reader: Reader, victoriametrics_url: str) -> Import:
    check_store = partial(launcher.check_flags, victoriametrics_url)

    def do(path: Path, hold_s: int | None = None) -> ImportReport:
        return import_samples(path, pusher, SystemClock(), ReaderSamples(reader), check_store, hold_s=hold_s)

    return do


def _write(tmp_path: Path, node: str, *lines: str) -> Path:
    path = tmp_path / "log.csv"
    body = [line.replace("NODE", node) for line in lines]
    path.write_text("\n".join(["time,node,gpu_uuid,gpu_busy_ratio,gpu_memory_used_bytes", *body]) + "\n")
    return path


def _read(
    reader: Reader, node: str, series: Series, start_s: int = START_S, end_s: int = START_S + 1_000
) -> dict[int, float]:
    frame = reader.export(Selector((series,), {"node": node}), start_s, end_s).frame
    return dict(frame.select("second_s", "value").iter_rows())


@pytest.mark.skipif(not alibaba.SUBSET.exists(), reason="shared data is not beside the checkout")
def test_a_production_log_comes_back_to_the_byte_second(tmp_path: Path, reader: Reader, do_import: Import) -> None:
    """14 devices over 6 h: every reading is written once for each of its 57 s, cells cut to whole bytes."""
    log = tmp_path / "log.csv"
    log.write_text(alibaba.sample_csv(alibaba.read_ticks()))

    done = do_import(log, hold_s=alibaba.STEP_S)

    assert done.rows == 5_304
    assert done.samples == 2 * alibaba.GRANTED_SECONDS - alibaba.STEP_S, "one utilisation cell is empty"
    assert done.cut_cells == 2_251
    memory = Selector((GPU_MEMORY_USED,), {"node": alibaba.NODE})
    frame = reader.export(memory, done.start_s, done.end_s).frame
    assert frame.height == alibaba.GRANTED_SECONDS
    assert frame["value"].cast(pl.Int128).sum() == alibaba.USED_VRAM_BYTE_SECONDS

    again = do_import(log)
    assert again == done, "the step is found from the log too"
    assert reader.count(memory, done.start_s, done.end_s) == alibaba.GRANTED_SECONDS, "nothing is there twice"


def test_a_reading_stands_for_its_hold_but_not_beyond_the_next_row(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """An empty cell ends the reading before it: missing is not "as before"."""
    lines = [
        f"{START_S},NODE,GPU-1,0.25,100",
        f"{START_S + 3},NODE,GPU-1,,200",
        f"{START_S + 20},NODE,GPU-1,0.75,300",
    ]

    done = do_import(_write(tmp_path, unique_node, *lines), hold_s=5)

    assert _read(reader, unique_node, GPU_MEMORY_USED) == {
        **dict.fromkeys(range(START_S, START_S + 3), 100),
        **dict.fromkeys(range(START_S + 3, START_S + 8), 200),
        **dict.fromkeys(range(START_S + 20, START_S + 25), 300),
    }
    assert _read(reader, unique_node, GPU_BUSY) == {
        **dict.fromkeys(range(START_S, START_S + 3), 0.25),
        **dict.fromkeys(range(START_S + 20, START_S + 25), 0.75),
    }
    assert (done.rows, done.samples, done.start_s, done.end_s) == (3, 21, START_S, START_S + 25)


def test_a_log_finer_than_a_second_is_merged_and_the_merge_is_counted(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    lines = [f"{START_S + tenth / 10},NODE,GPU-1,{tenth % 10 / 10},{tenth}" for tenth in range(30)]

    done = do_import(_write(tmp_path, unique_node, *lines))

    assert done.merged_rows == 27
    assert _read(reader, unique_node, GPU_MEMORY_USED) == {START_S: 9, START_S + 1: 19, START_S + 2: 29}
    assert _read(reader, unique_node, GPU_BUSY) == pytest.approx(dict.fromkeys(range(START_S, START_S + 3), 0.45))


def test_an_import_marks_its_node_complete_up_to_its_last_second(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    do_import(_write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,1", f"{START_S + 10},NODE,GPU-1,,1"))

    assert _read(reader, unique_node, COLLECTOR_COMPLETE_UNTIL) == {START_S + 20: START_S + 20}


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
    do_import(_write(tmp_path, unique_node, *first))
    corrected = [f"{START_S + second},NODE,GPU-1,{before[0]},{before[1]}" for second in range(15)]
    corrected += [f"{START_S + second},NODE,GPU-1,{after[0]},{after[1]}" for second in range(15, 30)]

    with pytest.raises(ConflictError, match=rf"{column} of 'GPU-1' is {values}") as raised:
        do_import(_write(tmp_path, unique_node, *corrected))

    message = str(raised.value)
    assert repr(unique_node) in message
    assert format_instant((START_S + 15) * 1_000_000) in message
    assert message.splitlines() == [message]
    assert message.endswith("then import all of it again")
    assert set(_read(reader, unique_node, GPU_MEMORY_USED)) == set(range(START_S, START_S + 20)), "nothing was sent"


def test_a_corrected_log_with_higher_values_and_one_of_another_device_or_time_are_taken(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """What another log said of other devices and seconds of the node is no contradiction."""
    do_import(_write(tmp_path, unique_node, *[f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},5000" for s in range(20)]))

    higher = [f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},6000" for s in range(10)]
    equal = [f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},5000" for s in range(10, 15)]
    later = [f"{START_S + s},NODE,GPU-1,0.01,7" for s in range(20, 40)]
    other = [f"{START_S + s},NODE,GPU-2,0.01,7" for s in range(20)]
    do_import(_write(tmp_path, unique_node, *higher, *equal, *later, *other), hold_s=1)

    memory = reader.export(Selector((GPU_MEMORY_USED,), {"node": unique_node}), START_S, START_S + 100).frame
    assert memory.group_by("gpu_uuid").agg(pl.col("value").sum()).sort("gpu_uuid").rows() == [
        ("GPU-1", 10 * 6_000 + 10 * 5_000 + 20 * 7),
        ("GPU-2", 20 * 7),
    ]


def test_the_command_names_the_node_and_the_remedy(
    tmp_path: Path,
    unique_node: str,
    victoriametrics_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    assert run(["samples", "import", str(_write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,5000"))]) == 0
    assert run(["samples", "import", str(_write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,5000"))]) == 0
    capsys.readouterr()

    assert run(["samples", "import", str(_write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,3000"))]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"gpu_memory_used_bytes of 'GPU-1' is 5000 in the store for '{unique_node}'" in line
    assert "/api/v1/admin/tsdb/delete_series" in line


def test_one_bad_cell_and_nothing_is_sent(tmp_path: Path, unique_node: str, reader: Reader, do_import: Import) -> None:
    lines = [f"{START_S + second},NODE,GPU-1,0.5,1" for second in range(500)]
    with pytest.raises(InputError, match=r"line 502: gpu_busy_ratio '1.5': no card can have it"):
        do_import(_write(tmp_path, unique_node, *lines, f"{START_S + 500},NODE,GPU-1,1.5,1"))

    assert _read(reader, unique_node, GPU_BUSY) == {}


def test_a_log_from_days_ahead_is_refused_before_the_first_byte(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """The store would take it, answer yes, and drop it."""
    ahead_s = SystemClock().now_us() // 1_000_000 + 5 * 86_400
    with pytest.raises(InputError, match="takes nothing after"):
        do_import(
            _write(tmp_path, unique_node, f"{ahead_s - 86_400 * 5},NODE,GPU-1,0.5,1", f"{ahead_s},NODE,GPU-1,0.5,1")
        )

    assert _read(reader, unique_node, GPU_BUSY, ahead_s - 86_400 * 6, ahead_s) == {}


def test_a_log_older_than_the_retention_is_refused_before_the_first_byte(
    tmp_path: Path, unique_node: str, victoriametrics_binary: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        launcher.start(
            binary=victoriametrics_binary,
            port=port,
            data_dir=tmp_path / "store",
            log=tmp_path / "store.log",
            clock=SystemClock(),
            retention="35d",
        ),
        Pusher(url) as pusher,
        Reader(url) as reader,
    ):
        path = _write(tmp_path, unique_node, "1662858720,NODE,GPU-1,0.5,1")
        with pytest.raises(InputError, match="keeps nothing from before"):
            import_samples(path, pusher, SystemClock(), ReaderSamples(reader), _unchecked)
        assert not any(pusher.dropped_rows().values())


def test_a_store_that_would_merge_seconds_is_refused_before_the_first_byte(
    tmp_path: Path,
    unique_node: str,
    victoriametrics_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the command: one line with the value and the remedy, and nothing is stored."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = launcher.command(binary=victoriametrics_binary, port=port, data_dir=tmp_path / "store")
    path = _write(tmp_path, unique_node, *[f"{START_S + second},NODE,GPU-1,0.5,1" for second in range(60)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    # Of equal flags the last counts.
    with Child([*words, "-dedup.minScrapeInterval=10s"], log=tmp_path / "store.log"), Reader(url) as reader:
        launcher.wait_healthy(url, timeout_s=15, clock=SystemClock())

        assert run(["samples", "import", str(path)]) == 1

        (line,) = capsys.readouterr().err.splitlines()
        assert "-dedup.minScrapeInterval is '10s'; start it with 1s" in line
        with Pusher(url) as pusher:
            pusher.flush()
        assert _read(reader, unique_node, GPU_BUSY) == {}


def test_a_store_that_did_not_keep_everything_is_an_error(tmp_path: Path, unique_node: str, pusher: Pusher) -> None:
    path = _write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,0.5,1")

    with pytest.raises(UnavailableError, match=r"of 2 samples of .* the store has 1"):
        import_samples(path, pusher, SystemClock(), ForgetfulStore(kept=1), _unchecked)


def test_a_store_that_is_down_is_one_line(tmp_path: Path, unique_node: str) -> None:
    path = _write(tmp_path, unique_node, f"{START_S},NODE,GPU-1,0.5,1")
    with Pusher(f"http://127.0.0.1:{free_port()}") as pusher, pytest.raises(UnavailableError, match="no answer"):
        import_samples(path, pusher, SystemClock(), ForgetfulStore(kept=0), _unchecked)


@pytest.mark.parametrize(("hold_s", "lines"), [(0, ["1,NODE,GPU-1,0.5,1"]), (None, []), (None, ["1,NODE,GPU-1,,"])])
def test_an_import_of_nothing_is_refused(
    tmp_path: Path, unique_node: str, do_import: Import, hold_s: int | None, lines: list[str]
) -> None:
    with pytest.raises(InputError, match=r"cannot (import|hold)"):
        do_import(_write(tmp_path, unique_node, *lines), hold_s=hold_s)


def test_the_simulated_past_comes_back_as_it_was(tmp_path: Path, reader: Reader, do_import: Import) -> None:
    """The sample log of an hour, by way of the store, against truth: shares, instances, whole cards, a lost one."""
    fleet = demo_fleet(4_711)
    plan = plan_history(fleet, START_S, START_S + 3_600)
    write_history(fleet, plan, tmp_path / "allocations.csv", tmp_path / "samples.csv")

    done = do_import(tmp_path / "samples.csv", hold_s=10)

    assert done.nodes == tuple(fleet.nodes)
    world = plan.world(fleet)
    used = reader.export(Selector((GPU_MEMORY_USED, OWNER_MEMORY)), START_S, START_S + 3_600).frame
    for grant in plan.grants:
        span = grant.span
        owner = "" if span.allocation is None else allocation_owner(span.allocation)
        rows = used.filter(
            pl.col("gpu_uuid") == span.gpu_uuid,
            pl.col("mig_uuid") == (span.mig_uuid or ""),
            pl.col("owner") == owner,
            pl.col("second_s").is_between(span.start_s, span.end_s, closed="left"),
        )
        true = truth(world, span, 10)
        assert (rows.height, rows["value"].cast(pl.Int64).sum()) == (true.covered_seconds, true.used_vram_byte_seconds)
    (lost,) = plan.incidents
    up = reader.export(Selector((GPU_UP,), {"gpu_uuid": lost.gpu_uuid}), START_S, START_S + 3_600).frame
    assert up.filter(pl.col("value") == 0)["second_s"].to_list() == list(range(lost.start_s, lost.end_s))
