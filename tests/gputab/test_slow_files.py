"""A file that is slow to come keeps nobody from writing: it is read before the ledger is locked."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gputab = Callable[..., Any]
RECORDS = (
    "allocation,tenant,project,node,gpu_uuid,model,kind,milli_gpu,vram_mib,mig_profile,start,end\n"
    "job-1,acme,vision,,,NVIDIA L4,whole,,0,,0,3600\n"
)


def _open_when_read(pipe: Path, reader: subprocess.Popen[str]) -> int:
    """The writing end of the pipe, as soon as the process reads from it."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert reader.poll() is None, reader.communicate()
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("prices load", "loaded the book 'partner': 2 rates added, 0 ended"),
        ("allocations import", "1 allocations added, 0 replaced, 0 unchanged"),
    ],
)
def test_others_write_while_a_file_is_still_read(
    gputab: Gputab, place: Path, ledger: str, words: str, said: str
) -> None:
    book = (place / "retail.yaml").read_text("utf-8").replace("retail", "partner")
    pipe = place / "pipe"
    os.mkfifo(pipe)
    program = f"import sys; from gputab.cli import run; sys.exit(run([*{words.split()!r}, 'pipe']))"
    with subprocess.Popen([sys.executable, "-c", program], cwd=place, stderr=subprocess.PIPE, text=True) as reader:
        try:
            end = _open_when_read(pipe, reader)
            with os.fdopen(end, "w", encoding="utf-8") as writer:
                created = gputab("tenant", "create", "beta", "--currency", "CNY")
                writer.write(book if words == "prices load" else RECORDS)
            _, errors = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert (created.code, created.line) == (0, "created the tenant 'beta'")
    assert reader.returncode == 0
    assert said in errors


def test_a_card_that_reports_a_sku_of_its_own_can_be_priced(
    gputab: Gputab, place: Path, ledger: str, record: Callable[..., None]
) -> None:
    """Known SKUs are those of the ledger too, which is asked before the file is read."""
    record({"allocation": "job-1", "model": "NVIDIA Own", "vram_mib": "7168", "start": "0"})
    text = (place / "retail.yaml").read_text("utf-8").replace("retail", "partner")
    (place / "own.yaml").write_text(text.replace("rtx4090-24g", "own-7g"), "utf-8")
    assert gputab("prices", "check", "own.yaml").code == 2
    assert gputab("prices", "load", "own.yaml").line == "loaded the book 'partner': 2 rates added, 0 ended"
