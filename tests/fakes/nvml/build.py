"""The library compiled from C: with what it implements, or with the very names that one driver exports."""

import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from domain.errors import UnavailableError

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "library"
# Lists of what real drivers export, where they lie beside the checkout.
SYMBOL_LISTS = FOLDER.parents[3] / "shared" / "data" / "samples" / "nvml-symbols"
NAME = "libnvidia-ml.so.1"
_FLAGS = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", f"-Wl,-soname,{NAME}")


def build(
    folder: Path,
    *flags: str,
    driver: str | None = None,
    without: Collection[str] = (),
    stubs: Collection[str] = (),
) -> Path:
    """Compile the library into `folder`, under the name by which the bindings load it.

    With `driver`, such as "590.48.01", it exports what that driver does: what is not implemented here answers
    NOT_SUPPORTED, and what that driver lacks is not there. `without` takes names away, `stubs` adds some.

    Raises UnavailableError where this machine has no C compiler, or no `nm`.
    """
    compiler, target = _tool("gcc", "cc"), folder / NAME
    sources = [str(file) for file in sorted(SOURCES.glob("*.c"))]
    subprocess.run([compiler, *_FLAGS, *flags, "-o", target, *sources], check=True)
    names = implemented(target)
    exported = ((names if driver is None else exported_by(driver) or names) | set(stubs)) - set(without)
    if exported != names:
        stub_source, script = folder / "stubs.c", folder / "exports.map"
        stub_source.write_text(_stubs(exported - names))
        script.write_text("{ global: fake_*; " + " ".join(f"{name};" for name in sorted(exported)) + " local: *; };\n")
        command = [compiler, *_FLAGS, *flags, f"-I{SOURCES}", f"-Wl,--version-script={script}", "-o", str(target)]
        subprocess.run([*command, *sources, str(stub_source)], check=True)
    return target


def implemented(library: Path) -> set[str]:
    """The names of NVML that a library exports. Raises UnavailableError where this machine has no `nm`."""
    command = [_tool("nm"), "-D", "--defined-only", str(library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name for line in listed.splitlines() if (name := line.split()[-1]).startswith("nvml")}


def exported_by(driver: str) -> set[str]:
    """What the driver of that version exports; empty where no list of it is at hand."""
    lists = sorted(SYMBOL_LISTS.glob(f"*__{driver}.symbols.txt"))
    return set(lists[0].read_text().split()) if lists else set()


def _stubs(names: Collection[str]) -> str:
    body = "EXPORT int {}(void) {{ BEGIN(NULL, NOTHING); return NOT_SUPPORTED; }}\n"
    return '#include "driver.h"\n' + "".join(body.format(name) for name in sorted(names))


def _tool(*names: str) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        remedy = "install it, as by 'apt-get install gcc binutils'"
        raise UnavailableError(f"cannot build the fake driver: {names[0]!r} is not on PATH; {remedy}")
    return found
