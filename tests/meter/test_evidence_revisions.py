"""When evidence is the same, when it lacks what is known already, and what of it comes back from its file."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.errors import EvidenceError, UnavailableError
from domain.series import COLLECTOR_LATENESS
from domain.units import GIB
from meter.evidence.evidence_file import read_evidence, write_evidence
from meter.evidence.evidence_store import FolderStore
from tests.meter.fixture_types import Observe, UseOf
from tests.meter.runs import SAMPLES

LATENESS = COLLECTOR_LATENESS.name
_UP = [("gpu_up", "GPU-1", "", "", second, 1) for second in range(10)]
_LOST = [("gpu_up", "GPU-1", "", "", second, 0) for second in range(5)]
_LOOKED = [(LATENESS, "", "", "", second, 0.0) for second in range(10)]


@given(rows=SAMPLES, seed=st.integers())
@settings(
    max_examples=settings().max_examples * 60 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_order_and_duplicates_of_samples_change_nothing(observe: Observe, rows: list[Any], seed: int) -> None:
    """A pair of collectors, or a re-send, gives the same evidence to the byte (VictoriaMetrics 6553)."""
    shuffled = [*rows, *rows, *rows]
    random.Random(seed).shuffle(shuffled)
    heard = [(0, 20), (31, 40)]
    again = observe(shuffled, end=50, heard=heard[::-1], devices=[("GPU-2", ""), ("GPU-1", "")])
    evidence = observe(rows, end=50, heard=heard, devices=[("GPU-1", ""), ("GPU-2", "")])
    assert again.digest == evidence.digest
    assert again.runs.equals(evidence.runs)


def test_the_digest_tells_every_difference(observe: Observe, use_of: UseOf) -> None:
    base = use_of(range(5))
    others = [
        observe(base, end=10),
        observe([*base, *use_of([6])], end=10),
        observe([*base, *use_of(range(5), 1, gpu="GPU-2")], end=10),
        observe(use_of(range(5), GIB + 1), end=10),
        observe(base, end=10, heard=[(0, 9)]),
        observe(base, end=10, devices=[("GPU-3", "")]),
    ]
    assert len({each.digest for each in others}) == len(others)


@pytest.mark.parametrize(
    ("better", "poorer"),
    [
        (lambda use_of: use_of(range(10)), lambda use_of: use_of(range(9))),
        # Every second was sampled as before, and less is known of what was read in it.
        (lambda use_of: [*_UP, *use_of(range(10))], lambda use_of: _UP),
        (lambda use_of: [*_UP, *use_of(range(10))], lambda use_of: [*_UP, *use_of(range(9))]),
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(10), owner="alloc:a1")],
            lambda use_of: [*use_of(range(10)), *use_of(range(9), owner="alloc:a1")],
        ),
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(10), mig="MIG-1")],
            lambda use_of: [*use_of(range(10)), *use_of(range(9), mig="MIG-1")],
        ),
        # One card more than before does not make up for another.
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(2), gpu="GPU-2")],
            lambda use_of: [*use_of(range(2)), *use_of(range(10), gpu="GPU-2")],
        ),
        (lambda use_of: use_of(range(10)), lambda use_of: use_of(range(10), gpu="GPU-2")),
        (
            lambda use_of: [*_UP, ("gpu_busy_ratio", "GPU-1", "", "", 3, 0.5)],
            lambda use_of: _UP,
        ),
        # That a card was lost or absent is knowledge too: without it the seconds would be billed.
        (lambda use_of: _LOST, lambda use_of: []),
        (lambda use_of: [*_LOST, *_UP[5:]], lambda use_of: _UP[5:]),
        (lambda use_of: _LOOKED, lambda use_of: []),
        (lambda use_of: [*_UP, *_LOOKED], lambda use_of: _LOOKED),
    ],
)
def test_evidence_lacks_what_another_knows_more_of(
    observe: Observe, use_of: UseOf, better: Callable[..., Any], poorer: Callable[..., Any]
) -> None:
    """By device, owner and quantity; neither lacks anything that is equal."""
    known = {"end": 10, "heard": [(0, 10)], "devices": [("GPU-1", "")]}
    one, other = observe(better(use_of), **known), observe(poorer(use_of), **known)
    assert other.lacks(one)
    assert not one.lacks(one)
    assert not other.lacks(other)
    both = observe([*better(use_of), *poorer(use_of)], **known)
    assert not both.lacks(other)


def test_evidence_lacks_nothing_outside_its_window(observe: Observe, use_of: UseOf) -> None:
    """The context is read anew each time, and may have left the store."""
    around = observe([*use_of(range(-20, 30)), *use_of(range(10), gpu="GPU-2")], end=10)
    inside = observe([*use_of(range(10)), *use_of(range(10), gpu="GPU-2")], end=10)
    assert not inside.lacks(around)


def test_what_was_written_is_what_is_read(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    evidence = observe([*use_of(range(100)), *use_of(range(50), owner="alloc:é/1")], heard=[(0, 9)])
    store = FolderStore(tmp_path)
    path, size_bytes = write_evidence(evidence, store, "2026-03-01/10/n1.r1")
    (file,) = (tmp_path / "2026-03-01" / "10").iterdir()
    assert (file, size_bytes) == (tmp_path / path, file.stat().st_size)
    back = read_evidence(store, path, "n1", evidence.period, evidence.digest)
    assert back.runs.equals(evidence.runs)
    assert back.digest == evidence.digest


@pytest.mark.parametrize("name", ["ev[1]", "ev*", "ev?", "s3:", "{a,b}", "é \n"])
def test_a_folder_of_any_name_keeps_evidence(observe: Observe, use_of: UseOf, tmp_path: Path, name: str) -> None:
    """And of its neighbours none is taken for it."""
    evidence, other = observe(use_of(range(5))), observe(use_of(range(6)))
    for neighbour in ("ev1", "evil", "a"):
        write_evidence(other, FolderStore(tmp_path / neighbour), "n1")
    store = FolderStore(tmp_path / name)
    path, _ = write_evidence(evidence, store, "n1")
    assert read_evidence(store, path, "n1", evidence.period, evidence.digest).digest == evidence.digest


def test_other_evidence_never_takes_the_place_of_a_file(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    paths = {write_evidence(observe(use_of(range(seconds))), store, "n1.r1")[0] for seconds in (5, 6, 5)}
    assert {tmp_path / path for path in paths} == {*tmp_path.iterdir()}
    assert len(paths) == 2


def test_evidence_that_was_exchanged_or_lost_is_refused(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    """As that of one window: the others can still be rated."""
    evidence, store = observe(use_of(range(5))), FolderStore(tmp_path)
    path, _ = write_evidence(observe(use_of(range(6))), store, "n1")
    with pytest.raises(EvidenceError, match=r"^cannot use the evidence '.*parquet': its digest is .*backup$"):
        read_evidence(store, path, "n1", evidence.period, evidence.digest)
    with pytest.raises(EvidenceError, match=r"^cannot read the evidence '.*nowhere': .*from a backup$"):
        read_evidence(store, "nowhere", "n1", evidence.period, evidence.digest)
    store.write("n1", b"PAR1 is not all of it PAR1")
    with pytest.raises(EvidenceError, match=r"^cannot read the evidence '.*n1': .*from a backup$") as refused:
        read_evidence(store, "n1", "n1", evidence.period, evidence.digest)
    assert "\n" not in str(refused.value)


def test_evidence_that_was_damaged_is_refused_wherever_it_was(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    """What parses Parquet panics on some of it, which is no error that can be caught, and on some ends the process."""
    evidence, store = observe(use_of(range(100))), FolderStore(tmp_path)
    path, _ = write_evidence(evidence, store, "n1")
    content = (tmp_path / path).read_bytes()
    flipped = [content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :] for at in range(len(content))]
    for damaged in (*flipped, content[:-20], content + b"\0", b""):
        (tmp_path / path).write_bytes(damaged)
        with pytest.raises(EvidenceError, match=r"^cannot read the evidence '.*parquet': it is damaged; .*backup$"):
            read_evidence(store, path, "n1", evidence.period, evidence.digest)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(UnavailableError, match=r"^cannot write evidence to '.*n1.*parquet': "):
        write_evidence(observe(), FolderStore(tmp_path / "file"), "n1")


def test_what_is_there_already_is_left_and_what_was_damaged_is_mended(tmp_path: Path) -> None:
    """A backup copies what has changed, and nothing has."""
    store, file = FolderStore(tmp_path / "evidence"), tmp_path / "evidence" / "n1.parquet"
    assert store.write("n1.parquet", b"runs") == 4
    before = file.stat()
    assert store.write("n1.parquet", b"runs") == 4
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    file.write_bytes(b"ruin")
    assert store.write("n1.parquet", b"runs") == 4
    assert store.read("n1.parquet") == b"runs"
