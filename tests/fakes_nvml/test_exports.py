"""The names that a library exports: what is implemented, or the very names of one driver."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from domain.errors import UnavailableError
from tests.fakes.nvml.build import SYMBOL_LISTS, build, exported_by, implemented
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes_nvml.answers import code_of

ROOT = Path(__file__).parents[2]
Use = Callable[[Path], FakeDriver]
Build = Callable[..., Path]
DRIVERS = ["590.48.01", "610.57.04"]
needs_lists = pytest.mark.skipif(not SYMBOL_LISTS.is_dir(), reason="the lists of exports are not beside the checkout")


@needs_lists
@pytest.mark.parametrize("version", DRIVERS)
def test_a_driver_exports_the_names_that_the_real_one_does(
    use_driver: Use, build_nvml: Build, tmp_path: Path, version: str
) -> None:
    path = build_nvml(tmp_path, driver=version)
    exports = exported_by(version)
    assert implemented(path) == exports
    assert len(exports) > 400

    driver = use_driver(path)
    driver.card(0)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA GeForce RTX 4090"
    assert code_of(pynvml.nvmlDeviceGetFanSpeed, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetFanSpeed")
    assert code_of(pynvml.nvmlDeviceGetFanSpeed, handle) == pynvml.NVML_ERROR_UNKNOWN
    rows = pynvml.c_nvmlRemappedRowsInfo_v2_t()
    missing = code_of(pynvml.nvmlDeviceGetRemappedRows_v2, handle, rows) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert missing == (version == "590.48.01")
    assert code_of(pynvml.nvmlEventSetWait_v3, None, 0) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    pynvml.nvmlShutdown()


@needs_lists
def test_nothing_is_implemented_that_no_driver_has(nvml_library: Path) -> None:
    """A name that was invented here would pass for one that a collector may rely on."""
    known = set().union(*(exported_by(version) for version in DRIVERS))
    assert implemented(nvml_library) - known == set()


def test_names_can_be_taken_away_and_added(use_driver: Use, build_nvml: Build, tmp_path: Path) -> None:
    gone, added = "nvmlEventSetWait_v2", "nvmlDeviceGetConfComputeMemSizeInfo"
    path = build_nvml(tmp_path, without=[gone], stubs=[added])
    assert gone not in implemented(path)
    assert added in implemented(path)
    use_driver(path)
    pynvml.nvmlInit()
    assert code_of(pynvml.nvmlEventSetWait_v2, None, 0) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    pynvml.nvmlShutdown()


def test_a_driver_before_510_lacks_the_later_calls(build_nvml: Build, tmp_path: Path) -> None:
    names = implemented(build_nvml(tmp_path, "-DOLD_DRIVER"))
    assert not {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"} & names
    assert {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v2"} <= names


def test_the_library_is_the_one_that_the_bindings_look_for(nvml_library: Path, tmp_path: Path) -> None:
    """By its soname it passes for the real one with programs that are linked against that."""
    program = "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlErrorString"
    environment = {"LD_LIBRARY_PATH": str(nvml_library.parent)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert b"libnvidia-ml.so.1" in nvml_library.read_bytes()


def test_a_machine_without_a_compiler_is_told_what_to_install(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever builds: a test skips, a program such as the benchmark ends with the words."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="'gcc' is not on PATH; install it"):
        build(tmp_path)
    with pytest.raises(UnavailableError, match="'nm' is not on PATH; install it"):
        implemented(nvml_library)


@pytest.mark.usefixtures("nvml_library")
def test_the_example_of_the_readme_runs_a_program_on_the_fake(tmp_path: Path) -> None:
    """With the library that it builds, in a process that knows nothing of it."""
    readme = Path(build.__code__.co_filename).with_name("README.md").read_text()
    example = readme.partition("```python\n")[2].partition("```")[0]
    program = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetPowerUsage(n.nvmlDeviceGetHandleByIndex(0)))"
    command = [sys.executable, "-c", example, str(tmp_path), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "512000\n"
