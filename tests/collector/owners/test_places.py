"""Where processes run in the field: the recorded place of each, and the owner that is proved of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.owners.places import place, place_of
from collector.owners.proofs import owner_of
from collector.owners.records import OwnerRecords
from tests.fakes.nvml.processes import ProcTree

CASES = Path(__file__).parents[4] / "shared" / "data" / "samples" / "cgroup" / "proc-cgroup-lines.tsv"
NODE, INNER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
POD = "1a2b3c4d-1111-2222-3333-444455556666"
POD_SLICE = f"kubelet-kubepods-pod{POD.replace('-', '_')}.slice"
# Places of which gputab proves an owner; users, batch systems, virtual machines and lone containers are nobody's.
PROVED = ("slurm", "pod", "unit")

needs_cases = pytest.mark.skipif(not CASES.exists(), reason="shared data is not beside the checkout")


def _cases() -> dict[str, tuple[str, str]]:
    rows = [line.split("\t") for line in CASES.read_text().splitlines() if not line.startswith("#")]
    return {
        name: (text.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\"), expected)
        for name, text, expected in rows
    }


@needs_cases
def test_places_as_they_are_seen_in_the_field() -> None:
    cases = _cases()

    assert {name: str(place_of(text)) for name, (text, _) in cases.items()} == {
        name: expected for name, (_, expected) in cases.items()
    }
    assert len(cases) == 27


@needs_cases
def test_owners_are_proved_of_the_kinds_that_root_names_and_of_no_other() -> None:
    cases = _cases()
    records = OwnerRecords(Path("/nonexistent"))
    found = {name: owner_of(text, records) for name, (text, _) in cases.items()}

    assert found == {
        name: ":".join(expected.split(":")[:2]) if expected.split(":")[0] in PROVED else None
        for name, (_, expected) in cases.items()
    }
    assert sum(owner is not None for owner in found.values()) == 16


@pytest.mark.parametrize(
    ("text", "place"),
    [
        # A node of kind, and docker in docker: the innermost is where the process is.
        (
            f"0::/system.slice/docker-{NODE}.scope/kubelet.slice/{POD_SLICE}/cri-containerd-{INNER}.scope\n",
            f"pod:{POD}:containerd",
        ),
        (f"0::/docker/{NODE}/docker/{INNER}\n", f"container:{INNER}:docker"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "user:1000:unit=session-3.scope"),
        ("0::/system.slice/nerdctl-" + INNER + ".scope\n", f"container:{INNER}:containerd"),
        ("0::/init.scope\n", "unknown:/init.scope"),
    ],
)
def test_places_beyond_those_recorded(text: str, place: str) -> None:
    assert str(place_of(text)) == place


def test_a_process_is_found_by_its_pid(proc: ProcTree) -> None:
    proc.process(7, "/system.slice/serve.service")

    assert str(place(7, proc.root)) == "unit:serve.service"
    assert str(place(8, proc.root)) == "unknown:gone"


@given(st.text())
def test_every_text_is_some_place(text: str) -> None:
    found = place_of(text)

    assert found.kind
    assert found.name


def test_a_name_that_cannot_be_printed_is_shown_with_marks() -> None:
    """It is a tenant's own, and goes to a terminal."""
    assert str(place_of("0::/x/\x1b[2J\x07evil\n")) == "unknown:/x/?[2J?evil"
