"""What a process takes of the machine, by /proc (proc_pid_stat(5), proc_pid_smaps(5))."""

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB_PER_MIB = 1_024


def cpu_seconds(pid: int) -> float:
    """Seconds of a core that all its threads have had so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    # `utime` and `stime`, 14 and 15, counted from the field behind the name, which is the third.
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mib(pid: int, without: str | None = None) -> float:
    """Memory that it has in use now, but for files whose path ends like that."""
    kib, is_counted = 0, True
    for line in Path(f"/proc/{pid}/smaps").read_text("utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_counted = without is None or not line.endswith(without)
        elif is_counted and line.startswith("Rss:"):
            kib += int(line.split()[1])
    return kib / _KIB_PER_MIB
