"""What the demo holds its bill against: the seconds that the store has no sample of, found without the meter."""

from dataclasses import replace

import pytest

from domain.clock import SystemClock
from domain.period import Period
from domain.samples import SampleRun
from domain.series import GPU_MEMORY_USED, GPU_UP
from gputab.demo.accounts import Accounts, _unsampled
from gputab.demo.proof import Proof
from meter.bills.invoices import Invoice, InvoiceLine
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

US = 1_000_000
HOUR_S = 3_600


@pytest.fixture
def start_s(victoriametrics_url: str, unique_node: str) -> int:
    """The beginning of an hour, in which GPU-1 was up, then lost, and then not sampled, and its instance for a while.

    GPU-2 told its memory and never whether it was up.
    """
    start_s = (SystemClock().now_us() // US // HOUR_S - 2) * HOUR_S
    up = [(range(100), 1), (range(100, 150), 0), (range(160, HOUR_S), 1)]
    with Pusher(victoriametrics_url) as pusher:
        labels = {"node": unique_node, "gpu_uuid": "GPU-1"}
        runs = [
            SampleRun(GPU_UP, labels, [start_s + second for second in seconds], [value] * len(seconds))
            for seconds, value in up
        ]
        instance = {**labels, "mig_uuid": "MIG-1"}
        seconds = [start_s + second for second in range(HOUR_S - 10)]
        runs.append(SampleRun(GPU_UP, instance, seconds, [1] * len(seconds)))
        runs.append(SampleRun(GPU_MEMORY_USED, {**labels, "gpu_uuid": "GPU-2"}, [start_s], [5]))
        pusher.push(encode(runs))
        pusher.flush()
    return start_s


def test_unsampled_is_what_the_store_has_nothing_of(victoriametrics_url: str, unique_node: str, start_s: int) -> None:
    """A lost card was looked at, so its seconds are no holes."""
    span = Period(start_s * US, (start_s + HOUR_S) * US)
    devices = [("GPU-1", None), ("GPU-1", "MIG-1")]
    found = _unsampled(victoriametrics_url, [unique_node, f"{unique_node}-other"], devices, span)
    assert {device: sorted(second - start_s for second in seconds) for device, seconds in found.items()} == {
        ("GPU-1", None): list(range(150, 160)),
        ("GPU-1", "MIG-1"): list(range(HOUR_S - 10, HOUR_S)),
    }


def test_a_device_that_never_said_that_it_is_up_was_not_sampled(
    victoriametrics_url: str, unique_node: str, start_s: int
) -> None:
    """In an hour, as the instance in the next one, or at all; a word about its memory is none."""
    span = Period(start_s * US, (start_s + HOUR_S + 1) * US)
    devices = [("GPU-1", "MIG-1"), ("GPU-2", None), ("GPU-3", None)]
    found = _unsampled(victoriametrics_url, [unique_node], devices, span)
    both_hours = set(range(start_s, start_s + 2 * HOUR_S))
    assert found == {
        ("GPU-1", "MIG-1"): both_hours - set(range(start_s, start_s + HOUR_S - 10)),
        ("GPU-2", None): both_hours,
        ("GPU-3", None): both_hours,
    }


GOOD = Accounts(
    [Invoice("acme", "CNY", "2026-03-01", "2026-03-01", (InvoiceLine("p", "s", "gpu", None),), None, settled=False)],
    0,
    0,
    Proof(allocations=1, granted_seconds=500, holes=10, mismatches=()),
    failures=(),
)


def test_a_demo_without_a_fault_has_no_problems() -> None:
    """One second in fifty may be missed on a busy machine."""
    assert GOOD.problems == []


@pytest.mark.parametrize(
    ("accounts", "problem"),
    [
        (replace(GOOD, proof=replace(GOOD.proof, holes=11)), "11 granted seconds were not sampled: too many to prove"),
        (replace(GOOD, residual_compute=None), "capacity is not accounted for: residual None compute-unit-seconds"),
        (replace(GOOD, residual_vram=5), "capacity is not accounted for: residual 0 compute-unit-seconds, 5 VRAM"),
        (replace(GOOD, failures=["cannot read the evidence 'x'"]), "cannot read the evidence 'x'"),
        (replace(GOOD, drafts=[]), "nothing was granted, so nothing was billed"),
        (replace(GOOD, drafts=[replace(GOOD.drafts[0], lines=())]), "the invoice of acme is empty"),
    ],
)
def test_a_demo_that_proves_nothing_fails(accounts: Accounts, problem: str) -> None:
    """Each by itself."""
    (said,) = accounts.problems
    assert said.startswith(problem)
