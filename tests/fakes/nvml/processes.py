"""The process file system that goes with the fake driver: a folder of the few files the collector reads."""

import shutil
from pathlib import Path

# The inodes of the first namespaces on every Linux.
HOST_NAMESPACES = ("pid:[4026531836]", "cgroup:[4026531835]")
# proc_pid_stat(5): what lies between the name and the start time, and what follows.
_BEFORE_START = "S 1 1 1 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 1 0"
_AFTER_START = "8343552 512 18446744073709551615 1 1 0"


class ProcTree:
    """A `/proc` of the host's namespaces, empty at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in HOST_NAMESPACES:
            self.enter_namespace(name)

    def enter_namespace(self, name: str) -> None:
        """Let the reader be in that namespace, such as `pid:[4026531836]`."""
        link = self.root / "self" / "ns" / name.partition(":")[0]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    def process(self, pid: int, cgroup: str, started: int = 1_000, name: str = "python") -> None:
        """Start a process, or move one to another cgroup; a path stands for a line of the second version."""
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{pid} ({name}) {_BEFORE_START} {started} {_AFTER_START}\n")
        (folder / "cgroup").write_text(f"0::{cgroup}\n" if cgroup.startswith("/") else cgroup)

    def end(self, pid: int) -> None:
        """End a process."""
        shutil.rmtree(self.root / str(pid))
