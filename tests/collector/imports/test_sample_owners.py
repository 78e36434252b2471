"""The owners of a device never have more of its memory than it uses: not in a row, a merged second or a held one."""

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_log import refuse_problems
from collector.imports.sample_rows import Identity, Row
from collector.imports.sample_seconds import Reading, Seconds
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY, Series

HEADER = "time,node,gpu_uuid,owner,gpu_memory_used_bytes,gpu_owner_memory_bytes"
Values = dict[Series, int | float]


def _owner(name: str) -> Identity:
    return Identity("n", "g", "", name)


def _read(tmp_path: Path, *lines: str, hold_s: int = 1) -> tuple[dict[str, list[Reading]], int]:
    """The readings of each owner ("" is the device) and how many rows were merged; InputError as an import has it."""
    path = tmp_path / "log.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    file = SampleFile(path)
    seconds = Seconds(problems=file.problems)
    holds_s = {each.identity: hold_s for each in seconds.readings(file.rows(lambda _: None))}
    file.problems += seconds.outgrown(holds_s)
    refuse_problems(file)
    found = defaultdict(list)
    for reading in Seconds().readings(file.rows(lambda _: None), holds_s):
        found[reading.identity.owner].append(reading)
    return found, seconds.merged


def _values(*rows: tuple[float, str, Values]) -> dict[str, Values]:
    """What becomes of the rows of one second."""
    made = [Row(0, round(time_s * MICROSECONDS), _owner(owner), values) for time_s, owner, values in rows]
    return {each.identity.owner: dict(each.values) for each in Seconds().readings(made)}


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (["1,n,g,,10,", "1,n,g,a,,50"], "line 3: gpu_owner_memory_bytes '50'"),
        (["1,n,g,a,,50", "1,n,g,,10,"], "line 2: gpu_owner_memory_bytes '50'"),
        (["1,n,g,,10,", "1,n,g,a,,6", "1,n,g,b,,5", "2,n,g,,10,"], "line 4: gpu_owner_memory_bytes '5'"),
        (["1.02,n,g,,10,", "1.07,n,g,a,,11"], "line 3: gpu_owner_memory_bytes '11'"),
        (["1,n,g,,0,", "1,n,g,unattributed,,1"], "line 3: gpu_owner_memory_bytes '1'"),
        (["1,n,g,,10,", "1,n,g,a,,11", "1.5,n,g,,20,", "1.5,n,g,a,,20"], "line 3: gpu_owner_memory_bytes '11'"),
        (["1,n,g,,10,", "1.2,n,g,a,,1", "1.4,n,g,a,,11"], "line 4: gpu_owner_memory_bytes '11'"),
        (["1,n,g,,10,", "1.5,n,g,,,", "1.5,n,g,a,,11"], "line 4: gpu_owner_memory_bytes '11'"),
    ],
)
def test_owners_that_exceed_their_device_are_refused_with_line_and_reason(
    tmp_path: Path, lines: list[str], refused: str
) -> None:
    with pytest.raises(InputError) as raised:
        _read(tmp_path, *lines)

    assert f"{refused}: the owners of the device have " in str(raised.value)
    assert "Nothing was sent" in str(raised.value)


def test_owners_are_held_against_the_cards_memory_where_its_use_is_not_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time,node,gpu_uuid,owner,gpu_memory_total_bytes,gpu_owner_memory_bytes\n1,n,g,,8,\n1,n,g,a,,9\n")
    file = SampleFile(path)
    list(Seconds(problems=file.problems).readings(file.rows(lambda _: None)))

    with pytest.raises(InputError, match=rf"line 3: .* more than its {GPU_MEMORY_TOTAL.name} 8"):
        refuse_problems(file)


@pytest.mark.parametrize(
    "lines",
    [
        ["1,n,g,,10,", "1,n,g,a,,6", "1,n,g,b,,4"],
        ["1,n,g,a,,6", "1,n,g,b,,3", "1,n,g,,10,"],
        ["1,n,g,a,,50", "1,n,h,,10,"],
        ["1,n,g,,,", "1,n,g,a,,50"],
        ["1,n,g,,,", "1.5,n,g,,,", "1.5,n,g,a,,"],
        ["1,n,g,,10,", "2,n,g,a,,50"],
        ["1.02,n,g,,10,", "1.05,n,g,a,,4", "1.08,n,g,b,,6", "2.02,n,g,,20,", "2.05,n,g,a,,20"],
        ["1,n,g,,10,", "1,n,g,a,,10", "1.5,n,g,,20,", "1.5,n,g,a,,20"],
        ["1,n,g,,10,", "1,n,g,a,,10", "1.5,n,g,b,,10", "1.5,n,g,,10,"],
        ["1,n,g,,10,", "1,n,g,a,,10", "1,n,g,,5,", "1,n,g,b,,5"],
        ["1,n,g,a,,10", "1,n,g,,10,", "1,n,g,a,,5", "1,n,g,,5,"],
    ],
    ids=[
        *("all of it", "owners first", "another card", "use unknown", "nothing known", "held no longer"),
        *(
            "one after another",
            "growing",
            "now one first, now the other",
            "whole seconds",
            "whole seconds, owners first",
        ),
    ],
)
def test_owners_that_fit_are_taken(tmp_path: Path, lines: list[str]) -> None:
    assert _read(tmp_path, *lines)[0]["a"]


def test_a_device_and_its_owners_come_in_the_order_of_time(tmp_path: Path) -> None:
    """Or an owner could not be held against the use of its time."""
    with pytest.raises(InputError, match="line 4: time '1': before an earlier row of the device; sort by time"):
        _read(tmp_path, "1,n,g,,10,", "2,n,g,,10,", "1,n,g,a,,10")


def test_memory_that_was_handed_on_within_a_second_is_there_once(tmp_path: Path) -> None:
    found, merged = _read(
        tmp_path,
        *("1.0,n,g,,10,", "1.0,n,g,a,,10", "1.0,n,g,b,,0"),
        *("1.5,n,g,,10,", "1.5,n,g,a,,0", "1.5,n,g,b,,10"),
    )

    assert [dict(found[owner][0].values) for owner in ("", "a", "b")] == [
        {GPU_MEMORY_USED: 10},
        {OWNER_MEMORY: 10},
        {OWNER_MEMORY: 0},
    ]
    assert merged == 3


def test_the_owners_of_a_merged_second_are_those_of_the_most_memory() -> None:
    """An owner that was not there then has no bytes in the second, and ratios are means of all of it."""
    found = _values(
        (1.0, "", {GPU_MEMORY_USED: 10, GPU_BUSY: 0.5}),
        (1.0, "a", {OWNER_MEMORY: 9, OWNER_COMPUTE: 0.5}),
        (1.4, "", {GPU_MEMORY_USED: 30, GPU_BUSY: 0.25}),
        (1.4, "a", {OWNER_MEMORY: 4, OWNER_COMPUTE: 0.125}),
        (1.4, "b", {OWNER_MEMORY: 20}),
        (1.8, "", {GPU_MEMORY_USED: 25, GPU_BUSY: 0.75}),
        (1.8, "c", {OWNER_MEMORY: 25, OWNER_COMPUTE: 0.75}),
    )

    assert found == {
        "": {GPU_MEMORY_USED: 30, GPU_BUSY: 0.5},
        "a": {OWNER_MEMORY: 4, OWNER_COMPUTE: pytest.approx(0.625 / 3)},
        "b": {OWNER_MEMORY: 20, OWNER_COMPUTE: 0},
        "c": {OWNER_COMPUTE: 0.25},
    }


def test_owners_that_are_read_less_often_than_their_device_keep_their_bytes() -> None:
    """The device's most memory was at a time that says nothing of owners."""
    found = _values((1.0, "", {GPU_MEMORY_USED: 10}), (1.0, "a", {OWNER_MEMORY: 8}), (1.5, "", {GPU_MEMORY_USED: 12}))
    assert found == {"": {GPU_MEMORY_USED: 12}, "a": {OWNER_MEMORY: 8}}


def test_owners_alone_are_merged_to_the_time_of_their_most_memory() -> None:
    found = _values(*((1 + tenth / 10, "a", Values({OWNER_MEMORY: value})) for tenth, value in enumerate((3, 9, 5))))
    assert found == {"a": {OWNER_MEMORY: 9}}


def test_an_owner_stands_no_longer_than_there_is_room_for_it(tmp_path: Path) -> None:
    """Three seconds early `b` has what `a` had: the hold of `a` was a guess, and the log knows better."""
    found, _ = _read(tmp_path, "0,n,g,,10,", "0,n,g,a,,10", "7,n,g,,10,", "7,n,g,b,,10", "17,n,g,,0,", hold_s=12)

    assert [(each.second_s, each.next_s) for each in found["a"]] == [(0, 7)]
    assert [(each.second_s, each.next_s) for each in found["b"]] == [(7, 17)]


def test_an_owner_for_which_there_is_room_stands_for_its_hold(tmp_path: Path) -> None:
    """Cards and processes asked one after the other, at times of their own."""
    lines = [f"{10 * n},n,g,,10,\n{10 * n + 1},n,g,a,,4\n{10 * n + 2},n,g,b,,5" for n in range(3)]
    found, _ = _read(tmp_path, *lines, hold_s=10)

    assert [(each.second_s, each.next_s) for each in found["a"]] == [(1, 11), (11, 21), (21, None)]
    assert [(each.second_s, each.next_s) for each in found["b"]] == [(2, 12), (12, 22), (22, None)]


def test_what_has_stopped_standing_takes_no_room(tmp_path: Path) -> None:
    """Neither an owner nor a use of the device that was read long ago crowds out the reading of another."""
    found, _ = _read(tmp_path, "0,n,g,,10,", "0,n,g,a,,10", "45,n,g,b,,10", "50,n,g,,10,", "50,n,g,c,,0", hold_s=10)
    assert [(each.second_s, each.next_s) for each in found["b"]] == [(45, None)]
    found, _ = _read(tmp_path, "0,n,g,,5,", "50,n,g,a,,5", "55,n,g,b,,5", hold_s=10)
    assert [(each.second_s, each.next_s) for each in found["a"]] == [(50, None)]


def test_an_empty_cell_ends_what_the_device_used(tmp_path: Path) -> None:
    assert _read(tmp_path, "0,n,g,,5,", "3,n,g,,,", "3,n,g,a,,10", hold_s=10)[0]["a"]


def test_of_several_rows_that_exceed_the_device_the_nearest_decides(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 5: "):
        _read(tmp_path, "0,n,g,,5,", "9,n,g,a,,10", "20,n,g,,5,", "21,n,g,a,,10", "40,n,g,,5,", "49,n,g,a,,9", hold_s=5)


def test_an_owner_is_held_against_the_device_as_long_as_that_stands(tmp_path: Path) -> None:
    lines = ["0,n,g,,5,", "3,n,g,a,,10", "20,n,g,,10,"]
    assert _read(tmp_path, *lines, hold_s=3)[0]["a"]
    with pytest.raises(InputError, match=r"line 3: .* have 10 bytes, more than its gpu_memory_used_bytes 5"):
        _read(tmp_path, *lines, hold_s=4)


owned_bytes = st.none() | st.integers(0, 5)
device_values = st.fixed_dictionaries({}, optional={GPU_MEMORY_USED: st.integers(0, 12), GPU_MEMORY_TOTAL: st.just(12)})
# How far in eighths of a second after the one before; what the device has, None where it has no row; what a and b have.
snapshots = st.lists(st.tuples(st.integers(0, 20), st.none() | device_values, owned_bytes, owned_bytes), max_size=12)


@given(log=snapshots, hold_s=st.integers(1, 4))
def test_whatever_is_taken_has_room_in_every_second(
    log: list[tuple[int, Values | None, int | None, int | None]], hold_s: int
) -> None:
    rows: list[Row] = []
    eighth = 0
    for step, device, *owned in log:
        eighth += step
        parts: list[tuple[str, Values | None]] = [("", device)]
        parts += [(owner, {OWNER_MEMORY: each}) for owner, each in zip("ab", owned, strict=True) if each is not None]
        rows += [
            Row(len(rows), eighth * MICROSECONDS // 8, _owner(owner), values)
            for owner, values in parts
            if values is not None
        ]
    first = Seconds()
    holds_s = {each.identity: hold_s for each in first.readings(rows)}
    refused = first.problems + first.outgrown(holds_s)

    stored: dict[int, dict[str, Values]] = defaultdict(dict)
    for reading in Seconds().readings(rows, holds_s):
        until_s = min(reading.second_s + hold_s, reading.next_s or reading.second_s + hold_s)
        for second_s in range(reading.second_s, until_s):
            assert reading.identity.owner not in stored[second_s], "one reading a second"
            stored[second_s][reading.identity.owner] = dict(reading.values)
    if not refused:
        for second in stored.values():
            device = second.pop("", {})
            limit = device.get(GPU_MEMORY_USED, device.get(GPU_MEMORY_TOTAL, 99))
            assert sum(values.get(OWNER_MEMORY, 0) for values in second.values()) <= limit
    if all(device and (a or 0) + (b or 0) <= device.get(GPU_MEMORY_USED, -1) for _, device, a, b in log):
        assert not refused, "each time fits by itself"
