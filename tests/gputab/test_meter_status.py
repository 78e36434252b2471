"""`gputab meter status` in words that are true: grants without a device, a lag, what no rate covers."""

from collections.abc import Callable
from typing import Any

import pytest

from domain.clock import MICROSECONDS, SystemClock
from domain.period import HOUR_S, format_instant

Gputab = Callable[..., Any]
Record = Callable[..., None]


def _ago(seconds: int) -> str:
    return format_instant((SystemClock().now_us() // MICROSECONDS - seconds) * MICROSECONDS)


def _status(gputab: Gputab) -> Any:
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    return row


def _run(gputab: Gputab, ago_s: int) -> None:
    done = gputab("meter", "run", "--from", _ago(ago_s), "--to", _ago(0))
    assert done.code == 0, done.err


def test_records_that_have_ended_leave_nothing_that_lags(gputab: Gputab, ledger: str, record: Record) -> None:
    """All of it is settled: that it was long ago is no lag."""
    record({"allocation": "a1", "start": _ago(100 * HOUR_S), "end": _ago(99 * HOUR_S)})
    _run(gputab, 100 * HOUR_S)
    row = _status(gputab)
    assert (row["node"], row["open"], row["lag_seconds"], row["oldest_open"]) == ("", 0, None, None)
    assert row["rated_until"] is not None


def test_a_grant_that_goes_on_lags_by_what_is_not_rated_yet(gputab: Gputab, ledger: str, record: Record) -> None:
    record({"allocation": "a1", "start": _ago(2 * HOUR_S)})
    began_us = SystemClock().now_us()
    _run(gputab, 2 * HOUR_S)
    row = _status(gputab)
    assert row["open"] >= 1
    assert 0 <= row["lag_seconds"] <= (SystemClock().now_us() - began_us) // MICROSECONDS + 1


def test_the_node_of_grants_without_a_device_has_a_name_in_a_table(gputab: Gputab, ledger: str, record: Record) -> None:
    """Not the dash of what is missing; in JSON it is '', as in the ledger."""
    record({"allocation": "a1", "start": _ago(100 * HOUR_S), "end": _ago(99 * HOUR_S)})
    run = gputab("meter", "run", "--from", _ago(100 * HOUR_S), "--to", _ago(99 * HOUR_S))
    assert run.out.count("(no device)") == 2
    assert "(no device)" in gputab("meter", "status").out


@pytest.mark.parametrize(("model", "unpriced_s"), [("NVIDIA GeForce RTX 4090", 0), ("NVIDIA L4", 600)])
def test_what_no_rate_covers_is_named_as_what_it_counts(
    gputab: Gputab, ledger: str, record: Record, model: str, unpriced_s: int
) -> None:
    """The book has a rate for every VRAM, and a GPU rate for the 4090 alone. One card of 600 s, two dimensions."""
    record({"allocation": "a1", "start": "1774969200", "end": "1774969800", "model": model, "vram_mib": "1024"})
    gputab("meter", "run", "--from", "1774969200", "--to", "1774969800")
    assert _status(gputab)["unpriced_seconds"] == unpriced_s
    assert "unpriced dimension-s" in gputab("meter", "status").out


def test_without_any_rate_each_dimension_counts(gputab: Gputab, ledger: str, record: Record) -> None:
    start_s, end_s = 1_700_000_000, 1_700_000_600
    record({"allocation": "a1", "start": f"{start_s}", "end": f"{end_s}"})
    gputab("meter", "run", "--from", f"{start_s}", "--to", f"{end_s}")
    assert _status(gputab)["unpriced_seconds"] == 2 * (end_s - start_s)
