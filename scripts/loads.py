"""Two processes that compete for a card."""

import subprocess
import sys
from contextlib import ExitStack

_SIZES_MIB = (512, 1_024)
# Whoever cannot work has ended by then.
_START_SECONDS = 2.0


class Loads:
    """At work from here on, where the driver's CUDA library is; `said` is what became of them."""

    def __init__(self, pci_bus_id: str, seconds: float) -> None:
        """They end by themselves after so long, or by `close`. `pci_bus_id` as NVML tells it."""
        self.said = "Two processes filled memory of the card over and over, for half of each second."
        self.caveat = ""
        self._running = ExitStack()
        words = [sys.executable, "-m", "scripts.cuda_load", pci_bus_id, str(seconds)]
        started = [subprocess.Popen([*words, str(size)], stderr=subprocess.PIPE, text=True) for size in _SIZES_MIB]
        for process in started:
            self._running.enter_context(process)
            self._running.callback(process.kill)
        for process in started:
            try:
                process.wait(timeout=_START_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            reason = process.stderr.read().strip() if process.stderr is not None else ""
            self.said = f"None could be made: {reason}."
            self.caveat = " No load could be made here: see the last section."
            self.close()
            return

    def close(self) -> None:
        """End them."""
        self._running.close()
