"""What a process says of itself: shown to people, from a fixed list, and no proof."""

import os
import subprocess
from pathlib import Path

from collector.owners.hints import NAMES, hints
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from tests.fakes.nvml.processes import ProcTree


def test_only_names_of_the_list_are_shown() -> None:
    """The environment of a real process, which has secrets in it."""
    environment = {"SLURM_JOB_ID": "17", "AWS_SECRET_ACCESS_KEY": "hunter2", "POD_NAME": "a\x1b[31m" + "x" * 300}
    full = {**environment, "PATH": os.environ["PATH"]}
    with subprocess.Popen(["cat"], env=full, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"\n")
        child.stdout.read(1)  # now it runs: before that it has no environment
        told = hints(child.pid)
        child.kill()

    assert told == {"SLURM_JOB_ID": "17", "POD_NAME": "a?[31m" + "x" * 122}
    assert told.keys() <= set(NAMES)
    assert hints(child.pid) == {}, "it has ended"


def test_an_environment_that_is_none_gives_no_hint(proc: ProcTree) -> None:
    proc.process(7, "/init.scope")
    environ = proc.root / "7" / "environ"
    for text in (b"", b"\0\0", b"SLURM_JOB_ID", b"SLURM_JOB_ID=\0", b"=17\0", b"\xff\xfe=\xff\0"):
        environ.write_bytes(text)
        assert hints(7, proc.root) == {}

    environ.write_bytes(b"SLURM_JOB_ID=17=18\0HOSTNAME=\xffnode\0SLURM_JOB_ID=19\0")
    assert hints(7, proc.root) == {"SLURM_JOB_ID": "17=18", "HOSTNAME": "�node"}


def test_the_environment_never_decides(proc: ProcTree, tmp_path: Path) -> None:
    """A tenant that calls itself another's job, pod or allocation is nobody's all the same."""
    proc.process(7, "/user.slice/user-1000.slice/session-3.scope")
    (proc.root / "7" / "environ").write_bytes(b"SLURM_JOB_ID=17\0POD_NAME=victim\0GPUTAB_ALLOCATION=victim\0")

    assert ProcessTable(proc.root, OwnerRecords(tmp_path)).owner(7) is None
    assert hints(7, proc.root) == {"SLURM_JOB_ID": "17", "POD_NAME": "victim"}
