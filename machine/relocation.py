"""A program out of an unpacked package that reads its data below its working directory, not below the root.

A distribution builds absolute folders into its programs, and only root could put the data there.
"""

import os
from pathlib import Path

from domain.errors import UnavailableError

_SUFFIX = ".relocated"


def relocated(program: Path, data: str) -> Path:
    """A copy beside `program` that looks for the folder `data` below its working directory.

    `data` is absolute, without a slash at its end. Each place where the program names the folder gets a name of the
    same length, `usr//share/x` for `/usr/share/x`, since a compiled program counts on it. The copy is made once.

    Raises UnavailableError where the program does not name the folder, or the copy cannot be written.
    """
    copy = program.with_name(f"{program.name}{_SUFFIX}")
    if copy.is_file():
        return copy
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    absolute = data.encode()
    relative = absolute[1:].replace(b"/", b"//", 1)
    try:
        content = program.read_bytes()
        if absolute not in content:
            raise UnavailableError(f"cannot move '{program}': it does not name '{data}'; install its package instead")
        partial.write_bytes(content.replace(absolute, relative))
        partial.chmod(0o755)
        partial.replace(copy)
    except OSError as error:
        raise UnavailableError(f"cannot write '{copy}': {error.strerror}; check the disk") from error
    finally:
        partial.unlink(missing_ok=True)
    return copy


def start_words(program: Path) -> list[str]:
    """How a command line begins that starts a program; one that was relocated, in the folder of its package.

    There, what else stands in the command line has to name files by absolute paths.
    """
    if program.suffix != _SUFFIX:
        return [str(program)]
    # The program is usr/bin/NAME.
    return ["env", "-C", str(program.parents[2]), str(program)]
