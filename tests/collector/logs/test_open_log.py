"""Which reader a log is for, by its content."""

import pytest

from collector.logs.open_log import READERS
from domain.errors import InputError
from tests.collector.logs.conftest import ReadLog


@pytest.mark.parametrize(
    "text",
    [
        "a page of prose, with commas, and 5 numbers\n",
        '{"rows": [1, 2]}\n',
        "<?xml version='1.0'?><nvidia_smi_log/>\n",
        "Time     GPU%   Mem Used\n     0.5    9.0       1361\n",
        "2025-01-01 10:00:00,123 INFO started\n",
        "# gpu   fan\n    0    33\n",
        "# Entity  POWER\n GPU 0   33\n",
    ],
)
def test_a_format_that_nobody_knows_is_refused_and_those_that_are_known_are_named(read_log: ReadLog, text: str) -> None:
    with pytest.raises(InputError, match="its format is unknown; give") as refused:
        read_log(content=text.encode())
    assert all(reader.name in str(refused.value) for reader in READERS)


def test_who_names_its_columns_says_that_it_is_a_csv(read_log: ReadLog) -> None:
    log = read_log(content=b"a;b\n5\n7\n", columns=("utilization.gpu",), start_us=0, step_us=1)
    assert [row.line for row in log.rows] == [2, 3]


@pytest.mark.parametrize(
    ("text", "step_us"),
    [
        ("utilization.gpu\n" + "5\n" * 300, 40 * 366 * 86_400 * 10**6),
        ('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} 40 99999999999999999\n', None),
    ],
    ids=["steps", "its own time"],
)
def test_times_that_no_calendar_has_are_refused(read_log: ReadLog, text: str, step_us: int | None) -> None:
    with pytest.raises(InputError, match="its times go beyond the year 9999; check them, or --start and --step"):
        read_log(content=text.encode(), start_us=0, step_us=step_us)


def test_every_format_is_known_by_one_reader_only() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)
