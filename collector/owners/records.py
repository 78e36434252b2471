"""Whose containers are, as whoever launched them has recorded it: a folder with a file for each container.

The file is named by the container's full id (64 hexadecimal digits) and holds one line: an owner, or one of two words
for a container of the operator's own: `nested` where it runs others' (the node of a kind cluster, a docker in docker),
whose names of groups are then believed as root's are; `mps` where nothing runs in it but the server of MPS.

A record is believed if it and the folder belong to root, or to the user that the collector runs as, and nobody else
can write them. One that is not is refused, said once by log, and proves nothing.
"""

import os
import re
import stat
from pathlib import Path

import structlog

from domain.errors import InputError
from domain.slugs import check_name

log = structlog.get_logger()

NESTED = "nested"
MPS_SERVER = "mps"

_OTHERS_CAN_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BYTES_MAX = 1_024
# Containers come and go for as long as a node lives; one that was refused so long ago may be said again.
_REFUSED_MAX = 1_024
_UID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}"
_OWNERS = re.compile(rf"pod:(?:{_UID})|slurm:\d{{1,20}}|unit:[\w@.:\\-]{{1,240}}\.service", re.ASCII)
_ALLOCATION = "alloc:"


class OwnerRecords:
    """The records of one node; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        """`folder` need not exist: then nothing is recorded."""
        self._folder = folder
        self._refused: set[tuple[str, str]] = set()

    def of(self, container: str) -> str | None:
        """What is recorded of the container of that full id: an owner, NESTED or MPS_SERVER; None: nothing believed."""
        try:
            text = self._read(container)
            return None if text is None else _checked(text)
        except (InputError, OSError) as error:
            self._say_once(container, str(error))
            return None

    def _read(self, container: str) -> str | None:
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            _check_writers(folder, str(self._folder))
            # Not to be kept waiting by a pipe, nor led elsewhere by a link.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            record = os.open(container, flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)
        try:
            _check_writers(record, container)
            if not stat.S_ISREG(os.fstat(record).st_mode):
                raise InputError(f"cannot use the record {container!r}: it is no file; write one of that name")
            return os.read(record, _BYTES_MAX).decode(errors="replace")
        finally:
            os.close(record)

    def _say_once(self, container: str, reason: str) -> None:
        if (container, reason) not in self._refused:
            if len(self._refused) >= _REFUSED_MAX:
                self._refused.clear()
            self._refused.add((container, reason))
            log.warning("owner_record_refused", container=container, reason=reason)


def _check_writers(descriptor: int, name: str) -> None:
    status = os.fstat(descriptor)
    if status.st_uid not in {0, os.geteuid()} or status.st_mode & _OTHERS_CAN_WRITE:
        raise InputError(
            f"cannot believe {name!r}: others than root could have written it; let root own it, and take write "
            "permission from its group and from others"
        )


def _checked(text: str) -> str:
    owner = text.removesuffix("\n")
    if owner in (NESTED, MPS_SERVER) or _OWNERS.fullmatch(owner):
        return owner
    if owner.startswith(_ALLOCATION):
        return _ALLOCATION + check_name("allocation", owner.removeprefix(_ALLOCATION))
    raise InputError(
        f"cannot use {owner[:80]!r} as a record: write one line, alloc:<id>, pod:<uid>, slurm:<job>, "
        f"unit:<name>.service, {NESTED} or {MPS_SERVER}"
    )
