"""What is known to go wrong with collectors of GPU metrics: each case has its number in the docstring of a test.

The letters say what it is a case of: R what a driver says, M instances (MIG), A whose use it is (attribution), L cards,
drivers and processes that come and go (life cycle), O days of work and sick stores (operation). A case whose last test
goes without leaving its number to another would be lost silently.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

CASES = {
    "R1": "a utilisation of 808334905 or 4294967295 among good ones",
    "R2": "blanks of every width, also multiplied",
    "R3": "SM active 0 for minutes while a kernel runs",
    "R4": "a ratio of 1.294",
    "R5": "0 from what cannot be measured",
    "R6": "used and free that leave some of the total to the driver",
    "R7": "energy of the whole card on each instance",
    "R8": "no energy counter, or one that begins again",
    "R9": "an energy counter that moves in steps",
    "R10": "the same XID twice, and one that stays",
    "R11": "an XID that only the kernel tells of, or both",
    "R12": "stamps of the time since boot",
    "R13": "no samples of an idle card",
    "R14": "a card that is scrubbed when its driver is loaded",
    "R15": "two meanings under one name",
    "R16": "fields and labels of three generations of names",
    "R17": "quotes and backslashes in labels",
    "M1": "a card in MIG mode that says 0, or nothing, at full load",
    "M2": "a number of an instance that is given out again",
    "M3": "instances that change while they are read",
    "M4": "an operator who needs the driver to be let go of",
    "M5": "a node of unlike cards",
    "M6": "two compute instances in one GPU instance",
    "M7": "both forms of an instance's UUID",
    "M8": "an instance that one side knows by number and the other by name",
    "M9": "an instance without memory",
    "M10": "a wrong name of a profile",
    "A1": "three pods on a card, of which one computes",
    "A2": "a sample of a process that ended 9 s ago",
    "A3": "samples of processes that sum to 260 %",
    "A4": "entries of 32 bytes where 24 belong",
    "A5": "memory of a process that is not told",
    "A6": "a PID that changes hands",
    "A7": "two jobs on a card",
    "A8": "a number of a card that is not the driver's",
    "A9": "a record that was left behind",
    "A10": "a label that comes and goes",
    "A11": "cards that nobody has",
    "A12": "use that nobody asked for",
    "A13": "PIDs of another namespace",
    "A14": "several containers of one pod",
    "L1": "a card that is lost",
    "L2": "a driver that was exchanged",
    "L3": "a container that has lost its devices",
    "L4": "a call that hangs",
    "L5": "samples that are lost by the hour",
    "L6": "values that stand still",
    "L7": "cards that are missing from some answers",
    "L8": "a profiler that has the counters",
    "L9": "a card that is taken out and put in",
    "L10": "what cannot be measured, asked every second",
    "L11": "persistence mode that is off",
    "L12": "columns that a driver renames",
    "O1": "weeks of seconds",
    "O2": "a store that is down for hours",
    "O3": "a store that refuses one line",
    "O4": "kill -9, and a store that loses what it took",
    "O5": "a clock that steps",
    "O6": "more labels than the store keeps",
}


def _claims() -> Iterator[str]:
    """The docstring of each test of the collector."""
    for path in sorted(FOLDER.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield ast.get_docstring(node) or ""


@pytest.fixture(scope="module")
def named() -> set[str]:
    return {name for claim in _claims() for name in re.findall(r"\b[RMALO]\d{1,2}\b", claim)}


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_named_by_a_test(named: set[str], case: str) -> None:
    assert case in named, f"no test says that it shows {case}: {CASES[case]}"


def test_no_test_names_a_case_that_is_not_on_the_list(named: set[str]) -> None:
    """Or a slip of the pen would look like a proof."""
    assert named <= CASES.keys()
