"""Which kind of file system a path lies on, by the kernel's list of mounts (proc(5), /proc/mounts)."""

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")
# The kernel writes a blank, tab, newline, backslash or "#" in a mount point as a backslash and three octal digits.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The type of the file system of `path`, such as `ext4` or `fuse.sshfs`; '' where there is no such list.

    Links are followed; the path itself need not be there yet.
    """
    try:
        text = os.fsdecode(mounts.read_bytes())
    except OSError:
        return ""
    # Not Path.resolve, which ends in an error where links lead in a circle.
    real = Path(os.path.realpath(path))
    kind, longest = "", -1
    for line in text.split("\n"):
        if line.count(" ") < 2:
            continue
        _, point, each = line.split(" ", 3)[:3]
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), point)
        # Of two mounts on one point the later one hides the other.
        if real.is_relative_to(point) and len(point) >= longest:
            kind, longest = each, len(point)
    return kind
