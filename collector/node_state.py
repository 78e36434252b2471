"""What a node remembers over restarts: the cards it has had, MIG instances by generation, and the XIDs it has heard.

One JSON file per node, replaced as a whole. Without it a collector that starts while the driver is gone, or a card
lost, could not say what is missing.
"""

import os
import stat
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog
from pydantic import TypeAdapter, ValidationError

from domain.errors import UnavailableError
from domain.inventory import Device

_FORMAT = 1
# Far more than cards and codes of a node can be.
_BYTES_MAX = 16 * 2**20

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class GivenOut:
    """A number of a GPU instance as it was last seen to be given out: how often by then, and to what.

    `to` names what would make it another instance: UUID, profile, place and compute instances. `is_there` is False
    once it was missed.
    """

    generation: int
    to: str
    is_there: bool


@dataclass(frozen=True, slots=True)
class HeardLog:
    """How far the kernel's log of this boot was heard: `until` is the place behind the last record that was.

    `awaited` are XIDs, by card and code, that the driver has told of and that record or a later one may yet.
    """

    until: int = 0
    awaited: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """All of it. `boot` is the kernel's id of the boot in which it was written; MIG instances do not survive one.

    `instances` are by card and number, `xids` count the events by card and code. `log` is None where it is not known
    how much of the kernel's log those counts are of.
    """

    boot: str = ""
    devices: tuple[Device, ...] = ()
    instances: dict[str, dict[int, GivenOut]] = field(default_factory=dict)
    xids: dict[str, dict[str, int]] = field(default_factory=dict)
    log: HeardLog | None = None
    format: int = _FORMAT


_FILE = TypeAdapter(Remembered)


def node_state_path(data_dir: Path, node: str) -> Path:
    """Where the memory of that node lies."""
    return data_dir / f"node-{quote(node, safe='')}.json"


class NodeState:
    """The memory of one node; safe to use from several threads. Nothing is on disk before `save`."""

    def __init__(self, path: Path | None, boot: str = "") -> None:
        """Reads the file, where there is one; `path` None keeps nothing. `boot` is the kernel's id of this boot.

        A file that is damaged is said, set aside as `<path>.damaged`, and begun anew. Raises UnavailableError for one
        that may not be read.
        """
        self._path = path
        self._lock = threading.Lock()
        self._is_failing = False
        found = None if path is None else _read(path)
        self._saved = found or Remembered(boot)
        self._now = self._saved
        if found is not None:
            self._now = _in_boot(found, boot)

    @property
    def remembered(self) -> Remembered:
        """What is known now."""
        return self._now

    def keep(self, **parts: Any) -> None:
        """Remember other parts than before, by their names in `Remembered`."""
        with self._lock:
            self._now = replace(self._now, **parts)

    def take_over(self, path: Path) -> None:
        """Know what another collector of the node has put down in that file, too; one that has ended. It is saved.

        Where it cannot be read this is said, and what was known here has to do.
        """
        try:
            if self._path is not None and path == self._path.absolute():
                raise ValueError("it is called as ours is, as in containers with a volume each")
            found = _parsed(_read_believable(path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else _first_line(error)
            remedy = "let collectors of a node see each other's 'data_dir'; else counts of XIDs begin anew"
            log.warning("node_state_not_taken_over", path=str(path), reason=reason, remedy=remedy)
            return
        with self._lock:
            self._now = _joined(_in_boot(found, self._now.boot), self._now)
        self.save()

    def save(self) -> None:
        """Write what has changed since; where the disk takes nothing this is said once, and tried again next time."""
        now = self._now
        if self._path is None or now == self._saved:
            return
        try:
            _write(self._path, _FILE.dump_json(now, indent=1))
        except OSError as error:
            if not self._is_failing:
                remedy = "free the disk, or set 'data_dir'"
                log.error("node_state_not_written", path=str(self._path), error=str(error), remedy=remedy)
            self._is_failing = True
            return
        self._saved = now
        self._is_failing = False


def _in_boot(found: Remembered, boot: str) -> Remembered:
    """What was put down in whichever boot, as it is true in this one."""
    if found.boot == boot:
        return found
    gone = {
        card: {number: replace(each, is_there=False) for number, each in numbers.items()}
        for card, numbers in found.instances.items()
    }
    # A log begins with its boot, in which nobody has counted anything yet.
    unheard = HeardLog() if found.boot and boot else None
    return replace(found, boot=boot, instances=gone, log=unheard)


def _joined(last: Remembered, former: Remembered) -> Remembered:
    """What two collectors of a node know together, of one boot: `last` told of it after `former` had."""
    known = {device.uuid for device in last.devices}
    instances = {card: dict(numbers) for card, numbers in former.instances.items()}
    for card, numbers in last.instances.items():
        mine = instances.setdefault(card, {})
        for number, each in numbers.items():
            before = mine.get(number)
            if before is not None and before.generation > each.generation:
                # Counted further by who did not see the last of it: the next is another again.
                mine[number] = replace(before, is_there=False)
            else:
                mine[number] = each
    xids = {
        card: dict(Counter(last.xids.get(card, {})) | Counter(former.xids.get(card, {})))
        for card in last.xids.keys() | former.xids.keys()
    }
    heard = [each.log for each in (last, former) if each.log is not None]
    return replace(
        last,
        devices=(*last.devices, *(device for device in former.devices if device.uuid not in known)),
        instances=instances,
        xids=xids,
        # Of what either has counted nothing is to be counted again.
        log=None if last.log is None else max(heard, key=lambda each: each.until),
    )


def _read(path: Path) -> Remembered | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(
            f"cannot read {str(path)!r}: {error.strerror}; make the collector's user own it"
        ) from error
    try:
        return _parsed(text)
    except ValueError as error:
        aside = path.with_name(f"{path.name}.damaged")
        with suppress(OSError):
            path.replace(aside)
        reason = _first_line(error)
        remedy = "nothing, unless a card is missing now: it is not expected any more"
        log.error("node_state_damaged", path=str(path), reason=reason, set_aside=str(aside), remedy=remedy)
        return None


def _read_believable(path: Path) -> bytes:
    """What is in a file of root's, or of our own user. Raises OSError, ValueError for anything else."""
    # Whoever opens a pipe without O_NONBLOCK waits for somebody to write to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in {0, os.geteuid()} or found.st_size > _BYTES_MAX:
            raise ValueError(f"it is no file of ours of up to {_BYTES_MAX} bytes")
        return file.read(_BYTES_MAX)


def _parsed(text: bytes) -> Remembered:
    """Raises ValueError, of which pydantic's is one."""
    found = _FILE.validate_json(text, strict=True)
    if found.format != _FORMAT:
        raise ValueError(f"its format is {found.format}, this gputab knows {_FORMAT}")
    return found


def _first_line(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


def _write(path: Path, text: bytes) -> None:
    """Replace the file as a whole, so that whoever is killed leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
