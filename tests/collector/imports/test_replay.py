"""A log in the store: once a second, whatever its steps, and the same however often it is replayed."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from collector.imports.log_samples import CardNames, LogSamples
from collector.imports.replay import replay
from collector.imports.sample_import import ImportReport
from collector.imports.stored_samples import StoredSamples
from collector.logs.log import Log, LogCard, LogRow
from domain.clock import Clock, FrozenClock, SystemClock
from domain.errors import ConflictError, InputError, UnavailableError
from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_ENERGY,
    GPU_INFO,
    GPU_LAST_XID,
    GPU_MEMORY_USED,
    GPU_THROTTLE,
    Series,
)
from domain.units import MIB
from gputab.commands.samples import ReaderSamples
from machine.process import free_port
from tests.collector.sample_logs import stored
from tests.fakes.clock import SettableClock
from tests.victoriametrics_server import start
from victoriametrics import launcher
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_010
SECOND_US = 1_000_000


class Replay:
    """Replays rows of one card, "0" of the node, into the session's store."""

    def __init__(self, url: str, pusher: Pusher, reader: Reader, node: str) -> None:
        self._check = partial(launcher.check_flags, url)
        self.pusher = pusher
        self.stored: StoredSamples = ReaderSamples(reader)
        self.clock: Clock = SystemClock()
        self.node = node

    def __call__(
        self,
        *rows: tuple[Fraction | int, Mapping[Series, int | Fraction]],
        card: LogCard = LogCard("0", model="Tesla T4"),  # noqa: B008 - it cannot be changed
        hold_s: int | None = None,
    ) -> ImportReport:
        found = tuple(
            LogRow(line, round((START_S + after_s) * SECOND_US), card, values)
            for line, (after_s, values) in enumerate(rows, start=1)
        )
        return self.log(*found, hold_s=hold_s)

    def log(self, *rows: LogRow, hold_s: int | None = None) -> ImportReport:
        log = LogSamples(Path("log"), Log(rows, ()), CardNames(self.node))
        return replay(log, self.pusher, self.clock, self.stored, self._check, hold_s=hold_s)


@pytest.fixture
def do_replay(victoriametrics_url: str, pusher: Pusher, reader: Reader, unique_node: str) -> Replay:
    return Replay(victoriametrics_url, pusher, reader, unique_node)


def test_finer_steps_are_merged_and_counted(do_replay: Replay, reader: Reader) -> None:
    """The mean of ratios, the most memory, the last of counters and of codes."""
    rows: list[tuple[Fraction, Mapping[Series, int | Fraction]]] = [
        (
            Fraction(tenth, 10),
            {GPU_BUSY: Fraction(tenth % 10, 10), GPU_MEMORY_USED: 30 - tenth, GPU_ENERGY: tenth, GPU_LAST_XID: tenth},
        )
        for tenth in range(20)
    ]

    done = do_replay(*rows)

    assert (done.rows, done.merged_rows, done.samples) == (20, 18, 8)
    node = do_replay.node
    assert stored(reader, node, GPU_BUSY, START_S) == pytest.approx({START_S: 0.45, START_S + 1: 0.45})
    assert stored(reader, node, GPU_MEMORY_USED, START_S) == {START_S: 30, START_S + 1: 20}
    assert stored(reader, node, GPU_ENERGY, START_S) == {START_S: 9, START_S + 1: 19}
    assert stored(reader, node, GPU_LAST_XID, START_S) == {START_S: 9, START_S + 1: 19}


def test_what_a_card_has_several_of_is_stored_by_part(do_replay: Replay, reader: Reader) -> None:
    """Each part has seconds of its own: one that a reading does not tell is not the others'."""
    parts: list[dict[Series, Mapping[str, int | Fraction]]] = [
        {GPU_THROTTLE: {"thermal": Fraction(tenth, 2), "sw_power_cap": Fraction(1)}, GPU_CLOCK_EVENT: {"gpu_idle": 1}}
        for tenth in range(4)
    ]
    del parts[3][GPU_CLOCK_EVENT]
    half_seconds = [
        LogRow(number, (2 * START_S + number) * SECOND_US // 2, LogCard("0"), {GPU_MEMORY_USED: 1}, each)
        for number, each in enumerate(parts)
    ]

    done = do_replay.log(*half_seconds)

    assert (done.rows, done.samples) == (4, 8)
    frame = reader.export(Selector((GPU_THROTTLE,), {"node": do_replay.node}), START_S, START_S + 10).frame
    assert sorted(frame.select("reason", "second_s", "value").iter_rows()) == [
        ("sw_power_cap", START_S, 1),
        ("sw_power_cap", START_S + 1, 1),
        ("thermal", START_S, 0.5),
        ("thermal", START_S + 1, 1.5),
    ]
    assert stored(reader, do_replay.node, GPU_CLOCK_EVENT, START_S) == {START_S: 1, START_S + 1: 1}
    assert do_replay.log(*half_seconds) == done, "twice changes nothing"


def test_coarser_steps_are_held_for_the_median_step(do_replay: Replay, reader: Reader) -> None:
    """A hole of more than the median stays one, and the last reading stands as long as the others."""
    do_replay(*((after_s, {GPU_MEMORY_USED: after_s}) for after_s in (0, 5, 10, 60)))

    assert stored(reader, do_replay.node, GPU_MEMORY_USED, START_S) == {
        START_S + after_s + held: after_s for after_s in (0, 5, 10, 60) for held in range(5)
    }


def test_a_hold_that_is_said_counts(do_replay: Replay, reader: Reader) -> None:
    do_replay((0, {GPU_MEMORY_USED: 1}), (5, {GPU_MEMORY_USED: 2}), hold_s=2)

    seconds = stored(reader, do_replay.node, GPU_MEMORY_USED, START_S)
    assert sorted(second - START_S for second in seconds) == [0, 1, 5, 6]


def test_a_second_replay_changes_nothing(do_replay: Replay, reader: Reader) -> None:
    values: dict[Series, int | Fraction] = {GPU_BUSY: Fraction(1, 3), GPU_MEMORY_USED: 5 * MIB}
    rows = [(after_s, values) for after_s in range(0, 300, 3)]
    node = Selector((GPU_BUSY, GPU_MEMORY_USED, GPU_INFO, COLLECTOR_COMPLETE_UNTIL), {"node": do_replay.node})

    first = do_replay(*rows)
    kept = reader.export(node, START_S, START_S + 1_000).frame
    again = do_replay(*rows)

    assert again == first
    assert first.samples == 600
    assert reader.export(node, START_S, START_S + 1_000).frame.equals(kept)


def test_what_is_known_of_a_card_is_said_as_a_collector_says_it(do_replay: Replay, reader: Reader) -> None:
    """At its first second and at each whole minute until its last reading."""
    do_replay((0, {GPU_MEMORY_USED: 1}), (150, {GPU_MEMORY_USED: 2}), hold_s=1)

    frame = reader.export(Selector((GPU_INFO,), {"node": do_replay.node}), START_S, START_S + 1_000).frame
    seconds = frame["second_s"].to_list()
    assert seconds == [START_S, *(each for each in range(START_S + 1, START_S + 151) if each % 60 == 0)]
    selector = Selector((GPU_INFO,), {"node": do_replay.node, "index": "0", "model": "Tesla T4"})
    assert reader.count(selector, START_S, START_S + 1_000) == len(seconds)


def test_a_card_of_which_nothing_is_known_has_no_info(do_replay: Replay, reader: Reader) -> None:
    do_replay((0, {GPU_MEMORY_USED: 1}), card=LogCard(None, "GPU-1"))

    assert reader.count(Selector((GPU_INFO,), {"node": do_replay.node}), START_S, START_S + 1_000) == 0


def test_a_log_that_is_still_to_come_is_refused_before_a_byte_is_sent(do_replay: Replay, reader: Reader) -> None:
    do_replay.clock = SettableClock((START_S - 10) * SECOND_US)
    with pytest.raises(InputError, match="check the zone of its times"):
        do_replay((0, {GPU_MEMORY_USED: 1}))

    found = Selector((GPU_MEMORY_USED, GPU_INFO, COLLECTOR_COMPLETE_UNTIL), {"node": do_replay.node})
    assert reader.count(found, START_S - 100, START_S + 1_000) == 0


def test_a_log_older_than_the_retention_is_refused_before_a_byte_is_sent(
    victoriametrics_binary: Path, tmp_path: Path, unique_node: str
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        start(binary=victoriametrics_binary, port=port, folder=tmp_path / "store", retention="35d"),
        Pusher(url) as pusher,
        Reader(url) as reader,
    ):
        with pytest.raises(InputError, match="keeps nothing from before"):
            Replay(url, pusher, reader, unique_node)((-400 * 86_400, {GPU_MEMORY_USED: 1}))
        assert not any(pusher.dropped_rows().values())


def test_a_lower_value_than_the_store_has_is_refused_before_a_byte_is_sent(do_replay: Replay, reader: Reader) -> None:
    do_replay((0, {GPU_MEMORY_USED: 10}))

    with pytest.raises(ConflictError, match="the store keeps the larger"):
        do_replay((0, {GPU_MEMORY_USED: 9}), (1, {GPU_MEMORY_USED: 9}))

    assert stored(reader, do_replay.node, GPU_MEMORY_USED, START_S) == {START_S: 10}


class _WithoutInfo:
    """A store that has lost what it was told of the cards."""

    def __init__(self, stored: StoredSamples) -> None:
        self._stored = stored
        self.values = stored.values

    def count(self, series: tuple[Series, ...], node: str, start_s: int, end_s: int) -> int:
        return 0 if GPU_INFO in series else self._stored.count(series, node, start_s, end_s)


def test_a_store_that_does_not_keep_what_is_known_of_the_cards_is_found_out(do_replay: Replay) -> None:
    do_replay.stored = _WithoutInfo(do_replay.stored)
    do_replay.clock = FrozenClock(SystemClock().now_us())

    with pytest.raises(UnavailableError, match=r"of 1 samples of .* it has 0; see its log, then replay again"):
        do_replay((0, {GPU_MEMORY_USED: 1}))
