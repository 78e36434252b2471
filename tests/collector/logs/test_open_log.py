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
        "# gpu   pwr  gtemp\n    0    33     45\n",
    ],
)
def test_a_format_that_nobody_knows_is_refused_and_those_that_are_known_are_named(read_log: ReadLog, text: str) -> None:
    with pytest.raises(InputError, match="its format is unknown; give") as refused:
        read_log(content=text.encode())
    assert all(reader.name in str(refused.value) for reader in READERS)


def test_who_names_its_columns_says_that_it_is_a_csv(read_log: ReadLog) -> None:
    log = read_log(content=b"a;b\n5\n7\n", columns=("utilization.gpu",), start_us=0, step_us=1)
    assert [row.line for row in log.rows] == [2, 3]


def test_every_format_is_known_by_one_reader_only() -> None:
    names = [reader.name for reader in READERS]
    assert len(set(names)) == len(names)
