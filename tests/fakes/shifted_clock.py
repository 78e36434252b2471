"""A wall clock for a program of another process, which a test sets forward and back while the program runs."""

import mmap
from pathlib import Path

from tests.fakes.preloading import preloaded


class ShiftedClock:
    """The clock of programs that are started with `env`; the monotonic one runs on, as on a machine that is set."""

    def __init__(self, folder: Path) -> None:
        """Built in that folder; skips where there is no C compiler."""
        self.library = preloaded(Path(__file__).with_suffix(".c"), folder)
        self._file = folder / "shifted_clock.state"
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)
        self.by_s = 0

    def env(self) -> dict[str, str]:
        """What a program has to be started with."""
        return {"LD_PRELOAD": str(self.library), "SHIFTED_CLOCK": str(self._file)}

    def set(self, by_s: int) -> None:
        """From now on the wall clock is that many seconds ahead of the machine's, or behind where negative."""
        self._page[:8] = by_s.to_bytes(8, "little", signed=True)
        self.by_s = by_s

    def close(self) -> None:
        """Let go of the file."""
        self._page.close()
