"""A kernel's log that a test writes, read as /dev/kmsg is."""

import fcntl
import os
from pathlib import Path


class PacketLog:
    """As /dev/kmsg: one read is one record, and it is never at an end. It keeps what was written since it was made."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        fcntl.fcntl(self._write_end, fcntl.F_SETFL, os.O_DIRECT)

    @property
    def path(self) -> Path:
        return Path(f"/proc/self/fd/{self.read_end}")

    def write(self, number: int, text: str) -> None:
        self.write_bytes(f"4,{number},98765432,-;{text}\n SUBSYSTEM=pci\n".encode())

    def write_bytes(self, read: bytes) -> None:
        """What one read answers."""
        os.write(self._write_end, read)

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self._write_end)
