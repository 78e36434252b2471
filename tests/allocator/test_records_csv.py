"""Reading the allocation CSV: every kind of bad line, named with its number, all in one go."""

import pytest

from allocator.records.csv_rows import Problems, Row, _format_mib, _read_mib, read_rows
from domain.allocation_csv import COLUMNS, REQUIRED_COLUMNS
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.grants import GrantKind
from domain.units import MIB

GOOD = {
    "allocation": "job-1",
    "tenant": "acme",
    "project": "lab",
    "node": "n1",
    "gpu_uuid": "GPU-0",
    "model": "NVIDIA L4",
    "kind": "share",
    "milli_gpu": "250",
    "vram_mib": "1024",
    "mig_profile": "",
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T01:00:00+00:00",
}


def csv_text(*rows: dict[str, str], header: tuple[str, ...] = COLUMNS) -> str:
    lines = [",".join(header)]
    lines += [",".join(f'"{row.get(name, "").replace(chr(34), chr(34) * 2)}"' for name in header) for row in rows]
    return "\n".join(lines) + "\n"


def read(text: str) -> list[Row]:
    problems = Problems()
    rows = read_rows(text.splitlines(keepends=True), problems)
    problems.raise_any()
    return rows


def test_a_row_is_read_by_the_names_of_its_columns() -> None:
    extra = {"labels": '{"b": "2", "a": "1"}', "source_id": "slurm:7"}
    (row,) = read(csv_text({**GOOD, **extra}, header=tuple(reversed(COLUMNS))))
    assert row == Row(
        line=2,
        allocation="job-1",
        tenant="acme",
        project="lab",
        node="n1",
        gpu_uuid="GPU-0",
        model="NVIDIA L4",
        kind=GrantKind.SHARE,
        milli_gpu=250,
        vram_bytes=1024 * MIB,
        mig_profile=None,
        start_us=1_767_225_600 * MICROSECONDS,
        end_us=1_767_229_200 * MICROSECONDS,
        mig_uuid=None,
        mig_start=None,
        labels='{"a": "1", "b": "2"}',
        source_id="slurm:7",
    )


def test_the_optional_columns_may_be_left_out_and_blank_lines_are_none() -> None:
    text = csv_text(GOOD, header=REQUIRED_COLUMNS).replace("\n", "\n\n")
    assert [row.allocation for row in read(text)] == ["job-1"]


@pytest.mark.parametrize(
    ("text", "start_us"),
    [
        ("0", 0),
        ("0.5", 500_000),
        ("1767225600", 1_767_225_600 * MICROSECONDS),
        ("2026-01-01T08:00:00+08:00", 1_767_225_600 * MICROSECONDS),
        ("2026-01-01 00:00:00.000001Z", 1_767_225_600 * MICROSECONDS + 1),
    ],
)
def test_times_are_iso_with_an_offset_or_epoch_seconds_and_zero_is_a_time(text: str, start_us: int) -> None:
    (row,) = read(csv_text({**GOOD, "start": text, "end": ""}))
    assert (row.start_us, row.end_us) == (start_us, None)


def test_an_empty_end_is_open_and_an_empty_card_is_record_only() -> None:
    (row,) = read(csv_text({**GOOD, "end": "", "gpu_uuid": "", "node": ""}))
    assert (row.end_us, row.gpu_uuid, row.node) == (None, None, "")


BAD = [
    ({"end": "2025-12-31T23:59:59Z"}, "it ends at '2025-12-31T23:59:59Z', before it starts"),
    ({"start": "2026-01-01T00:00:00"}, "cannot use the naive time '2026-01-01T00:00:00'"),
    ({"start": "yesterday"}, "cannot read 'yesterday' as a time"),
    ({"start": ""}, "as a time"),
    ({"start": "-1"}, "cannot use the time '-1'"),
    ({"start": "1e99999999"}, "'1e99999999'"),
    ({"start": "99999999999999"}, "'99999999999999'"),
    ({"allocation": ""}, "cannot use '' as a name of an allocation"),
    ({"allocation": "a b"}, "cannot use 'a b'"),
    ({"tenant": "Acme"}, "cannot use 'Acme' as a tenant"),
    ({"project": "the lab"}, "cannot use 'the lab' as a project"),
    ({"node": ""}, "the node of the card 'GPU-0' is missing"),
    ({"gpu_uuid": "GPU 0"}, "cannot use 'GPU 0' as a GPU UUID"),
    ({"kind": "half"}, "cannot use the kind 'half': write whole, mig, share"),
    ({"kind": ""}, "cannot use the kind ''"),
    ({"kind": "whole"}, "a whole card of 250 milli-GPU"),
    ({"milli_gpu": "0"}, "cannot use milli_gpu '0': write 1 to 999"),
    ({"milli_gpu": "1000"}, "a share of 1000 milli-GPU"),
    ({"milli_gpu": ""}, "a share of no milli-GPU: write 1 to 999"),
    ({"milli_gpu": "-250"}, "cannot use milli_gpu '-250'"),
    ({"milli_gpu": "0.25"}, "cannot use milli_gpu '0.25'"),
    ({"milli_gpu": "1001"}, "cannot use milli_gpu '1001'"),
    ({"milli_gpu": "9" * 5_000}, "cannot use milli_gpu"),
    ({"milli_gpu": "\u0662"}, "cannot use milli_gpu"),
    ({"vram_mib": "-1"}, "cannot read vram_mib '-1'"),
    ({"vram_mib": "lots"}, "cannot read vram_mib 'lots'"),
    ({"vram_mib": "0.1"}, "cannot use vram_mib '0.1': it must be whole bytes"),
    ({"vram_mib": "8388608.5"}, "cannot use vram_mib '8388608.5': no card has more than 8388608 MiB; write MiB, not"),
    ({"vram_mib": "25757220864"}, "cannot use vram_mib '25757220864': no card has more than 8388608 MiB; write MiB"),
    *(
        ({name: "NaN"}, f"cannot use 'NaN' as {name}: leave a cell empty")
        for name in COLUMNS
        if name not in ("tenant", "project")
    ),
    *(({"gpu_uuid": text}, f"cannot use {text!r} as gpu_uuid: leave") for text in ("nan", "None", "NULL", "<NA>")),
    ({"labels": '{"a": "1", "b": "2", "a": "3"}'}, "cannot use labels that name 'a' twice: keep one"),
    ({"start": "1767225600000"}, "cannot use the time '1767225600000': it is outside the years 1 to 9999; epoch times"),
    ({"end": "1767229200000000"}, "cannot use the time '1767229200000000'"),
    ({"vram_mib": "1e999999999"}, "cannot read vram_mib"),
    ({"vram_mib": "1e-999999999"}, "cannot read vram_mib"),
    ({"mig_profile": "1g.10gb"}, "mig_profile '1g.10gb' with the kind share: leave it empty"),
    ({"kind": "mig", "milli_gpu": ""}, "the kind mig without its mig_profile"),
    ({"mig_uuid": "MIG-1"}, "a MIG instance with the kind share"),
    ({"mig_start": "2"}, "a MIG instance with the kind share"),
    ({"kind": "mig", "mig_profile": "1g.10gb", "mig_start": "8"}, "cannot use mig_start '8'"),
    ({"kind": "mig", "mig_profile": "1g.10gb", "mig_uuid": "M", "gpu_uuid": ""}, "the card of the MIG instance 'M'"),
    ({"labels": "a=b"}, "cannot read the labels 'a=b'"),
    ({"labels": '{"a": 1}'}, "cannot use the labels"),
    ({"labels": "[]"}, "cannot use the labels"),
    ({"model": "x" * 129}, "as a model: 1 to 128"),
]


@pytest.mark.parametrize(("cells", "said"), BAD)
def test_a_bad_cell_is_named_with_its_line_and_value(cells: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(csv_text(GOOD, {**GOOD, **cells}))
    message = str(refused.value)
    assert message.startswith("cannot import the records, nothing was written: line 3: ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot find the column 'allocation'"),
        (csv_text(header=REQUIRED_COLUMNS[:-1]), "cannot find the column 'end'"),
        (csv_text(header=(*COLUMNS, "gpus")), "cannot use the column 'gpus'"),
        (csv_text(header=(*COLUMNS, "end")), "names a column twice"),
        (csv_text(header=tuple(name.upper() for name in COLUMNS)), "cannot use the column 'ALLOCATION'"),
        (csv_text(GOOD) + '"', "cannot read line 3 as CSV"),
        (csv_text(GOOD) + '"a"b,', "cannot read line 3 as CSV"),
    ],
)
def test_a_file_that_is_not_one_is_refused_with_the_columns_there_are(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)


def test_a_row_with_too_few_or_too_many_cells_is_a_problem_of_its_line() -> None:
    with pytest.raises(InputError) as refused:
        read(csv_text(GOOD) + "a,b\n" + ",".join("x" * (len(COLUMNS) + 1)) + "\n")
    assert f"line 3: 2 cells under {len(COLUMNS)} columns: write one under each; line 4: 17 cells" in str(refused.value)


def test_the_first_twenty_problems_are_named_and_the_rest_counted() -> None:
    with pytest.raises(InputError) as refused:
        read(csv_text(GOOD, *[{**GOOD, "kind": "half"}] * 25))
    message = str(refused.value)
    assert message.count("cannot use the kind 'half'") == 20
    assert "line 22: " in message
    assert "line 23: " not in message
    assert message.endswith("; and 5 more")


@pytest.mark.parametrize("vram_bytes", [0, 1, MIB, MIB + 1, 24_052 * MIB, 150_754_820_095, 2**40 - 1, 2**43])
def test_bytes_survive_the_way_through_mib(vram_bytes: int) -> None:
    assert _read_mib(_format_mib(vram_bytes)) == vram_bytes


def test_mib_are_written_without_needless_decimals() -> None:
    assert [_format_mib(vram_bytes) for vram_bytes in (0, 100 * MIB, 3 * MIB // 2, 1)] == [
        "0",
        "100",
        "1.5",
        "0.00000095367431640625",
    ]
