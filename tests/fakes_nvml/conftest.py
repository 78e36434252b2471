"""The fake driver under the vendor's own bindings, which are not changed."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.fakes.nvml.driver import FakeDriver


@pytest.fixture
def driver(use_driver: Callable[[Path], FakeDriver], nvml_library: Path) -> Iterator[FakeDriver]:
    """A driver without cards, initialised; shut down as often as needed at the end."""
    driver = use_driver(nvml_library)
    pynvml.nvmlInit()
    yield driver
    driver.clear_faults()
    driver.unload(0)
    with suppress(pynvml.NVMLError):
        while True:
            pynvml.nvmlShutdown()


@pytest.fixture
def handle(driver: FakeDriver) -> Any:
    """The handle of one H100, which can tell everything."""
    driver.card(0, "NVIDIA H100 80GB HBM3", abilities=2**29 - 1)
    return pynvml.nvmlDeviceGetHandleByIndex(0)
