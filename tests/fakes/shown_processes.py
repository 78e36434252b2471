"""A `/proc` for a program of another process, as far as a collector looks there: who is on the cards, and whose."""

from pathlib import Path

from tests.fakes.nvml.processes import ProcTree
from tests.fakes.preloading import preloaded


class ShownProcesses(ProcTree):
    """What programs that are started with `env` find of processes: those of this tree, and none of the machine's."""

    def __init__(self, folder: Path) -> None:
        """Built in that folder; skips where there is no C compiler."""
        super().__init__(folder / "proc")
        self.library = preloaded(Path(__file__).with_suffix(".c"), folder)

    def env(self) -> dict[str, str]:
        """What a program has to be started with."""
        return {"LD_PRELOAD": str(self.library), "SHOWN_PROC": str(self.root)}
