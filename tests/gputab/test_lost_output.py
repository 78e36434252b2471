"""Output that nobody takes: a full disk is one line and no success, a closed pipe is nobody's news."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Record = Callable[..., None]
FULL = Path("/dev/full")
GPUTAB = [sys.executable, "-m", "gputab"]
SAID = "gputab: cannot write the output: No space left on device; send it elsewhere, or free some space\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        (["--help"], ""),
        (["tenant", "list"], ""),
        (["tenant", "list", "--format", "json"], ""),
        (["tenant", "list", "--format", "json"], "1"),
        (["usage", "--from", "0", "--to", "10"], ""),
        (["allocations", "export"], ""),
    ],
)
def test_a_full_disk_is_one_line_and_no_success(
    ledger: str, words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with FULL.open("w") as full:
        done = subprocess.run([*GPUTAB, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, SAID)


@pytest.mark.parametrize("words", [["allocations", "export"], ["tenant", "list"], ["--help"]])
def test_a_reader_that_has_had_enough_is_not_told(ledger: str, record: Record, words: list[str]) -> None:
    """`| head -1`: of an export that fills the pipe, and of what would have fitted into it."""
    record(*({"allocation": f"a{number}", "start": "0", "end": "10"} for number in range(1_000)))
    with subprocess.Popen([*GPUTAB, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("words", [["tenant", "list"], ["tenant", "list", "--format", "json"]])
def test_an_output_that_was_closed_is_an_output_that_nobody_wants(ledger: str, words: list[str]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *GPUTAB, *words], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
