"""A folder of a program of another process, as a power cut would leave it: its files as they last were synced."""

from pathlib import Path

from tests.fakes.preloading import preloaded


class SyncedFolder:
    """What programs that are started with `env` have synced of the files in a folder, and nothing that they have not.

    What was written or removed since is not so, and a new file has its name with its first sync. Else it is the worst
    that can be: a disk may have more of what was written.
    """

    def __init__(self, folder: Path, tools: Path) -> None:
        """Of `folder`; built in `tools`, where the copies are too; skips where there is no C compiler."""
        self.library = preloaded(Path(__file__).with_suffix(".c"), tools)
        self.folder = folder
        self.left = tools / "synced"
        """The files that were synced."""
        self.left.mkdir()

    def env(self) -> dict[str, str]:
        """What a program has to be started with."""
        return {
            "LD_PRELOAD": str(self.library),
            "SYNCED_FOLDER": str(self.folder.resolve()),
            "SYNCED_TO": str(self.left),
        }
