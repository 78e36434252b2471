"""`gputab doctor` in a container: owners are proved only where both PIDs and the names of cgroups are the host's."""

from pathlib import Path

import pytest

from domain.samples import FieldState
from domain.series import OWNER_MEMORY
from gputab.doctor.driver import machine_findings
from gputab.doctor.findings import Finding, Verdict
from gputab.doctor.reasons import reason_of
from tests.fakes.nvml.processes import ProcTree

PID, CGROUP = "PID namespace", "cgroup namespace"


def found_by(proc: ProcTree) -> dict[str, Finding]:
    """What is said of each namespace."""
    findings = machine_findings(proc.root, proc.root / "kmsg")
    return {finding.what: finding for finding in findings if finding.what in (PID, CGROUP)}


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def test_in_the_hosts_namespaces_all_is_well(proc: ProcTree) -> None:
    assert {what: finding.verdict for what, finding in found_by(proc).items()} == {
        PID: Verdict.GOOD,
        CGROUP: Verdict.GOOD,
    }


@pytest.mark.parametrize(
    ("namespace", "what", "option"),
    [("pid:[4026532288]", PID, "--pid=host"), ("cgroup:[4026532290]", CGROUP, "--cgroupns=host")],
)
def test_a_namespace_that_is_not_the_hosts_is_to_be_mended(
    proc: ProcTree, namespace: str, what: str, option: str
) -> None:
    """In either no owner is proved, so neither may be called well for the other's sake."""
    proc.enter_namespace(namespace)
    (finding,) = [each for each in found_by(proc).values() if each.verdict is not Verdict.GOOD]
    assert (finding.what, finding.verdict) == (what, Verdict.MEND)
    assert "no owner can be proved" in finding.said
    assert option in finding.remedy
    said_as_well = " ".join(each.said for each in found_by(proc).values() if each.verdict is Verdict.GOOD)
    assert "can be proved" not in said_as_well


def test_what_helps_a_card_whose_owners_are_unknown_names_both_namespaces() -> None:
    reason = reason_of(FieldState.ATTRIBUTION_UNAVAILABLE, OWNER_MEMORY)
    assert reason.is_wrong
    assert "cgroup" in reason.words
    assert "--pid=host --cgroupns=host" in reason.remedy
