"""What a log's rows are in the store: whose they are, in which order, and without what no card can say."""

from fractions import Fraction
from pathlib import Path

import pytest

from collector.imports.log_samples import CardNames, LogSamples
from collector.logs.log import Log, LogCard, LogRow, RefusedRow
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_TEMPERATURE,
    GPU_THROTTLE,
    Series,
)
from domain.units import MIB

SECOND_US = 1_000_000
PATH = Path("gpu.csv")
NODE = CardNames("node-1")


def _row(line: int, second: int, card: LogCard, values: dict[Series, int | Fraction] | None = None) -> LogRow:
    return LogRow(line, second * SECOND_US, card, {GPU_MEMORY_USED: line} if values is None else values)


def _samples(*rows: LogRow, names: CardNames = NODE, refused: tuple[RefusedRow, ...] = ()) -> LogSamples:
    return LogSamples(PATH, Log(rows, refused), names)


def _names(samples: LogSamples) -> list[tuple[str, str, str]]:
    return [row.identity[:3] for row in samples.rows(lambda _: None)]


def test_a_card_is_called_by_its_uuid_wherever_that_is_told() -> None:
    rows = (_row(1, 1, LogCard("0", "GPU-0")), _row(2, 1, LogCard("1")), _row(3, 1, LogCard("2")))

    samples = _samples(*rows, names=CardNames("node-1", {"1": "GPU-1", "0": "GPU-other", "7": "GPU-7"}))

    assert _names(samples) == [("node-1", "GPU-0", ""), ("node-1", "GPU-1", ""), ("node-1", "node-1/2", "")]
    assert samples.unnamed == {"node-1/2"}, "what the log says counts before what a person says"


def test_the_node_is_what_a_person_says_before_what_the_log_says() -> None:
    """An exporter in a container calls its host by the container's name."""
    row = _row(1, 1, LogCard("0", "GPU-0", node="dcgm-exporter-x"))

    assert _names(_samples(row, names=CardNames())) == [("dcgm-exporter-x", "GPU-0", "")]
    assert _names(_samples(row)) == [("node-1", "GPU-0", "")]


@pytest.mark.parametrize(
    ("card", "names", "words"),
    [
        (LogCard("0", "GPU-0"), CardNames(), "it does not name its node; give --node"),
        (LogCard(None), NODE, "it names a card by neither UUID nor index"),
        (LogCard("0", "GPU 0"), NODE, "cannot use 'GPU 0' as a GPU UUID"),
        (LogCard("0", "GPU-0", "MIG 0"), NODE, "cannot use 'MIG 0' as a MIG UUID"),
        (LogCard("0", "GPU-0", model="\x1b[2J"), NODE, "as a model"),
        (LogCard("0", "GPU-0", node="no node"), CardNames(), "cannot use 'no node' as a node"),
    ],
)
def test_a_card_without_a_usable_name_refuses_the_log(card: LogCard, names: CardNames, words: str) -> None:
    with pytest.raises(InputError) as refused:
        _samples(_row(1, 1, card), names=names)
    assert words in str(refused.value)


def test_rows_come_by_card_and_time_and_of_equal_times_the_last_counts() -> None:
    one, other = LogCard("0", "GPU-0"), LogCard("0", "GPU-0", "MIG-0")
    rows = (_row(1, 3, one), _row(2, 1, one), _row(3, 1, other), _row(4, 2, one), _row(5, 1, one))

    samples = _samples(*rows)

    found = [(row.identity.mig_uuid, row.time_us // SECOND_US, row.line) for row in samples.rows(lambda _: None)]
    assert found == [("", 1, 5), ("", 2, 4), ("", 3, 1), ("MIG-0", 1, 3)]
    assert (samples.repeated, len(samples)) == (1, 4)


def test_values_are_what_the_store_takes_and_cut_bytes_are_counted() -> None:
    values: dict[Series, int | Fraction] = {GPU_MEMORY_USED: Fraction(21, 2), GPU_BUSY: Fraction(1, 3), GPU_POWER: 70}

    samples = _samples(_row(1, 1, LogCard("0"), values), _row(2, 2, LogCard("0"), {GPU_MEMORY_USED: Fraction(8)}))

    first, second = samples.rows(lambda _: None)
    assert dict(first.values) == {GPU_MEMORY_USED: 10, GPU_BUSY: 1 / 3, GPU_POWER: 70}
    assert isinstance(first.values[GPU_MEMORY_USED], int)
    assert dict(second.values) == {GPU_MEMORY_USED: 8}
    assert samples.cut_cells == 1


def test_what_no_card_can_say_is_left_out_and_told_by_its_line() -> None:
    garbage: dict[Series, int | Fraction] = {GPU_BUSY: Fraction(4_294_967_295, 100), GPU_TEMPERATURE: 61}
    full: dict[Series, int | Fraction] = {
        GPU_MEMORY_TOTAL: 8 * MIB,
        GPU_MEMORY_USED: 9 * MIB,
        GPU_MEMORY_RESERVED: MIB,
    }
    only: dict[Series, int | Fraction] = {GPU_POWER: 10**6}

    samples = _samples(
        _row(7, 1, LogCard("0"), garbage),
        _row(8, 2, LogCard("0"), full),
        _row(9, 3, LogCard("0"), only),
        refused=(RefusedRow(12, "3 cells"),),
    )

    assert [dict(row.values) for row in samples.rows(lambda _: None)] == [
        {GPU_TEMPERATURE: 61},
        {GPU_MEMORY_TOTAL: 8 * MIB, GPU_MEMORY_RESERVED: MIB},
    ]
    assert samples.refused == (
        RefusedRow(7, "gpu_busy_ratio 42949672.95: no card can have it"),
        RefusedRow(8, "gpu_memory_used_bytes 9437184: more than the card's 8388608"),
        RefusedRow(9, "gpu_power_watts 1000000.0: no card can have it"),
        RefusedRow(12, "3 cells"),
    )


def test_a_part_that_no_card_can_have_costs_itself_only() -> None:
    parts = {GPU_THROTTLE: {"thermal": Fraction(10**12), "sw_power_cap": Fraction(1)}}

    samples = _samples(LogRow(7, 1, LogCard("0"), {}, parts))

    ((told, value),) = next(samples.rows(lambda _: None)).values.items()
    assert (told.name, value) == (GPU_THROTTLE.name, 1.0)
    assert samples.refused == (
        RefusedRow(7, "gpu_throttle_seconds_total 1000000000000.0 of 'thermal': no card can have it"),
    )


def test_what_some_rows_tell_of_a_card_is_known_of_it() -> None:
    cards = (LogCard("0", "GPU-0"), LogCard("0", "GPU-0", model="Tesla T4"), LogCard(None, "GPU-0", "MIG-0"))

    samples = _samples(*(_row(number, number, card) for number, card in enumerate(cards, start=1)))

    known = samples.cards["node-1", "GPU-0"]
    assert (known.index, known.model) == ("0", "Tesla T4")


def test_progress_is_told_in_rows() -> None:
    told: list[int] = []
    samples = _samples(*(_row(number, number, LogCard("0")) for number in range(1, 12_001)))

    assert len(list(samples.rows(told.append))) == sum(told) == len(samples) == 12_000
    assert len(told) == 3


def test_an_instance_that_a_log_names_by_its_cards_index_is_named_by_the_cards_uuid() -> None:
    """M8: so that it joins with what a collector says of the same card; a name of the driver's own stays."""
    rows = (
        _row(1, 1, LogCard("0", mig_uuid="MIG-0/2/0")),
        _row(2, 1, LogCard("1", mig_uuid="MIG-1/2/0")),
        _row(3, 1, LogCard("0", "GPU-0", mig_uuid="MIG-GPU-0/3/0")),
        _row(4, 1, LogCard("2", "GPU-2", mig_uuid="MIG-2b0e-1")),
    )

    samples = _samples(*rows, names=CardNames("node-1", {"0": "GPU-0"}))

    assert _names(samples) == [
        ("node-1", "GPU-0", "MIG-GPU-0/2/0"),
        ("node-1", "GPU-0", "MIG-GPU-0/3/0"),
        ("node-1", "GPU-2", "MIG-2b0e-1"),
        ("node-1", "node-1/1", "MIG-node-1/1/2/0"),
    ]
