"""Whether the kernel calls this machine's clock synchronised, whatever program sets it (adjtimex(2))."""

import ctypes
from typing import NamedTuple

_STA_UNSYNC = 0x0040
_MICROSECONDS = 1_000_000


class ClockSync(NamedTuple):
    """`error_seconds` is how far off it may be, as whoever sets it says."""

    is_synchronised: bool
    error_seconds: float


class _Timex(ctypes.Structure):
    """The head of struct timex (linux/timex.h), and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock_sync() -> ClockSync | None:
    """What the kernel says; None where it does not."""
    told = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told)) < 0:
        return None
    return ClockSync(not told.status & _STA_UNSYNC, told.maxerror / _MICROSECONDS)
