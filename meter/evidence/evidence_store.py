"""Where frozen evidence is kept: a folder of this machine, or a bucket."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from domain.errors import EvidenceError, UnavailableError


class EvidenceStore(Protocol):
    """Files by their path, relative and with slashes, each of them whole or not there at all.

    Nothing is ever deleted. `FolderStore` and `BucketStore` are the two there are.
    """

    def write(self, path: str, content: bytes) -> int:
        """Put the file there, to survive what the ledger survives; returns its size in bytes.

        One that is there already with the same content is left as it is. Raises UnavailableError where it cannot be
        written.
        """
        ...

    def read(self, path: str) -> bytes:
        """All of the file. Raises EvidenceError where it is gone, UnavailableError where the store is not to be had."""
        ...

    def place(self, path: str) -> str:
        """Where the file is, for a person; holds no secret."""
        ...


def evidence_store(place: Path | str) -> EvidenceStore:
    """The store at a folder, or at a URL s3://BUCKET/PREFIX; it is not reached before it is used."""
    if isinstance(place, Path):
        return FolderStore(place)
    # Not at the top: who keeps evidence in a folder has no use for the library, which takes a while to load.
    from meter.evidence.bucket_store import BucketStore

    return BucketStore(place)


class FolderStore:
    """`EvidenceStore` in a folder, which is made when something is to be written to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, path: str, content: bytes) -> int:
        """The content is on the disk, and so are the names that lead to it, before this returns."""
        file = self._folder / path
        # Another process may be writing the same.
        partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}.partial")
        try:
            _make_folder(file.parent)
            if not _holds(file, content):
                with partial.open("wb") as written:
                    written.write(content)
                    os.fsync(written.fileno())
                partial.replace(file)
            # Also where the file was there: who wrote it may have been killed before he came to this.
            _sync_folder(file.parent)
        except OSError as error:
            with suppress(OSError):
                partial.unlink()
            raise UnavailableError(
                f"cannot write evidence to {self.place(path)!r}: {error.strerror}; free some space"
            ) from error
        return len(content)

    def read(self, path: str) -> bytes:
        """Raises EvidenceError also where the file is there and cannot be read."""
        try:
            return (self._folder / path).read_bytes()
        except OSError as error:
            raise EvidenceError(
                f"cannot read the evidence {self.place(path)!r}: {error.strerror}; restore it from a backup"
            ) from error

    def place(self, path: str) -> str:
        """The path of the file."""
        return str(self._folder / path)


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.read_bytes() == content
    except OSError:
        return False


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it; like the file itself, they must survive a power cut as the ledger does."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the names in the folder to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
