"""What is known to go wrong with the metering of GPUs: each case is named by a test, or it is said why it is not ours.

`metering A1` to `metering D52` are of billing: A fractions, MIG and idle, B time, C duplicates and late data, D money.
`cases 1` to `cases 59` are public reports with a small input. A test's docstring names its cases; of tests that do not,
or that are of another folder, `SHOWN` says which they are. A case whose last test goes would be lost silently.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent

CASES = {
    "metering A1": "replicas that multiply the card",
    "metering A2": "a quarter of the cores, read as the whole card",
    "metering A3": "a fraction that cannot be read",
    "metering A4": "a capacity that vanishes",
    "metering A5": "what two MIG instances strand",
    "metering A6": "parts in cents that are not the whole in cents",
    "metering A7": "idle of what was seen only",
    "metering A8": "capacity that grows with the rows of prices",
    "metering A9": "a model without a price",
    "metering A10": "idle below nothing",
    "metering A11": "idle that disappears",
    "metering A12": "idle that swamps a tenant's bill",
    "metering A13": "use that is what was granted",
    "metering A14": "the whole card's number on each slice",
    "metering A15": "blanks and sentinels",
    "metering B16": "the tail after the last sample, and a window that still fills",
    "metering B17": "windows cut to minutes",
    "metering B18": "two precisions at a border",
    "metering B19": "times as floats",
    "metering B20": "a window shorter than the step",
    "metering B21": "a gap that is averaged into the capacity",
    "metering B22": "a price that changes inside an allocation",
    "metering B23": "the days of a part of a period",
    "metering B24": "a local midnight",
    "metering B25": "a day of the past, computed up to now",
    "metering B26": "a name that comes back",
    "metering B27": "an end that is not known",
    "metering B28": "what was never ready",
    "metering C29": "a pair of collectors with equal stamps",
    "metering C30": "a pair of collectors with stamps apart",
    "metering C31": "an id of its own for each reading",
    "metering C32": "a mark and what it marks in two writes",
    "metering C33": "a re-run that adds",
    "metering C34": "two rules, or two names, that match",
    "metering C35": "ties where tiers begin",
    "metering C36": "a day as the difference to the one before",
    "metering C37": "a record of last month",
    "metering C38": "a store that is down, or empty",
    "metering C39": "a share that is weighed twice",
    "metering C40": "the first sample of a counter",
    "metering C41": "an owner's label that lingers, or is missing",
    "metering C42": "two models in one string of resources",
    "metering D43": "an hour read as a month",
    "metering D44": "components that are rescaled",
    "metering D45": "lines that do not sum to the total",
    "metering D46": "rounding each second",
    "metering D47": "quantities of nine digits, and prices above 100",
    "metering D48": "a price below nothing",
    "metering D49": "two who close one period",
    "metering D50": "a closed week that is priced anew",
    "metering D51": "rows of another tenant",
    "metering D52": "a name that is SQL",
    "cases 1": "4 GPUs, then 1, in one hour",
    "cases 2": "1 GPU, then 4, in one hour",
    "cases 4": "the size in a profile's name",
    "cases 5": "a slice billed as the card",
    "cases 7": "a host that is gone",
    "cases 8": "uptime that is use",
    "cases 10": "15 minutes of which 10 were left",
    "cases 11": "minutes below nothing",
    "cases 13": "a missing hour as a zero",
    "cases 14": "a machine's price divided over CPU, memory and GPU",
    "cases 16": "a quarter of the cores, read as one GPU",
    "cases 17": "use within 1 % of what was granted",
    "cases 19": "memory without time, minimum hours, and wrong counts of cards",
    "cases 20": "remainders of seconds that are dropped",
    "cases 22": "accounts of before and after the change of clocks",
    "cases 23": "the offset of today for a day of the past",
    "cases 25": "units that are unit-months",
    "cases 26": "GPUs that only the allocated resources tell",
    "cases 28": "GPUs asked for, and given, typed and plain",
    "cases 29": "typed and plain GPUs of a job",
    "cases 31": "GPUs free of a node, read at two moments",
    "cases 32": "idle of an inventory that is not known",
    "cases 34": "runs of a job that was put back",
    "cases 35": "GPUs of a node that are not tracked",
    "cases 37": "GPU-seconds of 0",
    "cases 38": "a card's use on each of its pods",
    "cases 40": "the exporter's pod in place of the tenant's",
    "cases 41": "a utilisation of 0 in MIG mode",
    "cases 43": "a utilisation of 4294967295",
    "cases 44": "blanks that were multiplied",
    "cases 46": "two blanks that differ",
    "cases 47": "0 in one version and N/A in the next",
    "cases 49": "a busy machine that answers N/A",
    "cases 50": "one card without memory among others",
    "cases 52": "a card that is lost among others",
    "cases 53": "unknown errors for ever",
    "cases 55": "two cards where one was expected",
    "cases 56": "used memory with and without the reserve",
    "cases 58": "an instance that is more than busy",
    "cases 59": "millijoules read as microjoules",
}

# Tests that show a case without naming it in these words.
SHOWN = {
    "metering A14": "meter/test_rating_quantities.py::test_a14_an_instance_is_measured_by_its_own_readings",
    "metering A15": "meter/test_rating_quantities.py::test_a15_a_sentinel_changes_no_charge",
    "metering B16": "meter/test_windows_settling.py::test_what_is_drawn_while_it_fills_is_replaced_and_not_added_to",
    "metering B18": "meter/test_rating_time.py::test_b18_grants_and_samples_meet_on_whole_seconds",
    "metering B19": "domain/test_period.py::test_a_time_is_read_to_the_microsecond",
    "metering C41": "meter/test_rating_time.py::test_c41_the_grant_owns_the_time_not_the_label",
    "metering D44": "meter/test_rating_prices.py::test_d44_components_are_not_rescaled_to_each_other",
    "metering D46": "meter/test_rating_prices.py::test_d46_a_day_at_2_49_is_not_rounded_each_second",
    "metering D51": "meter/test_spend_store.py::test_a_tenant_sees_its_own_spend_and_staff_all_or_one",
    "metering D52": "meter/test_price_store.py::test_what_a_sheet_says_cannot_become_sql",
    "cases 1": "meter/test_rating_quantities.py::test_a_change_of_size_inside_an_hour_is_billed_by_its_parts",
    "cases 2": "meter/test_rating_quantities.py::test_a_change_of_size_inside_an_hour_is_billed_by_its_parts",
    "cases 4": "meter/test_rating_quantities.py::test_an_instance_is_billed_by_the_size_the_hardware_reports",
    "cases 5": "meter/test_rating_quantities.py::test_a5_two_slices_are_priced_by_their_sms",
    "cases 7": "meter/test_rating_time.py::test_a_host_that_is_gone_is_not_sold",
    "cases 17": "meter/test_rating_quantities.py::test_a13_what_was_granted_and_what_was_busy_are_two_numbers",
    "cases 38": "collector/dcgm/test_copies.py::test_587_copies_for_the_pods_of_a_shared_card_are_one_value",
    "cases 40": "collector/dcgm/test_copies.py::test_340_labels_that_prometheus_replaced_leave_one_card_with_one_value",
    "cases 41": "collector/dcgm/test_scraped_values.py::test_216_a_card_in_mig_mode_is_not_idle_for_saying_0_percent",
    "cases 43": "collector/test_ranges.py::test_a_utilisation_beyond_100_percent_is_no_reading",
    "cases 44": "collector/test_ranges.py::test_a_drivers_blank_is_missing_whatever_it_was_read_as",
    "cases 46": "collector/test_ranges.py::test_a_drivers_blank_is_missing_whatever_it_was_read_as",
    "cases 47": "collector/dcgm/test_fields.py::test_r5_two_versions_of_dcgm_say_the_same_of_a_card_without_an_xid",
    "cases 49": "collector/test_ranges.py::test_what_a_card_cannot_tell_is_not_garbage",
    "cases 50": "collector/logs/test_query_csv.py::test_what_a_card_cannot_tell_is_missing_and_the_row_stands",
    "cases 52": "collector/nvml/test_source.py::test_a_lost_card_says_so_and_nothing_more_while_the_others_are_read",
    "cases 53": "collector/logs/test_cells.py::test_what_a_card_cannot_tell_is_missing_and_not_zero",
    "cases 55": "collector/logs/test_query_csv.py::test_rows_of_several_cards_without_an_index_are_asked_for",
    "cases 56": "collector/nvml/test_source.py::test_used_memory_is_without_what_the_driver_reserves",
    "cases 58": "collector/dcgm/test_engine_profiling.py::test_r4_a_ratio_of_1_294_is_garbage",
    "cases 59": "collector/nvml/test_source.py::test_a_card_is_read_in_base_units",
}

# What cannot go wrong here, because it is not done here.
NO_PART_OF_IT = {
    "metering C35": "no price has tiers: a second costs the same whichever it is of how many",
    "metering C42": "not read by gputab: it takes a row per card and no string of resources",
    "cases 14": "not sold by gputab: a GPU has a price of its own, and CPU and memory of the machine have none",
    "cases 26": "not read by gputab: it takes a row per card and no output of squeue",
    "cases 28": "not read by gputab: it takes a row per card, and neither ReqTRES nor AllocTRES",
    "cases 29": "not read by gputab: it takes a row per card and no string of resources",
    "cases 31": "not read by gputab: capacity is of the cards that the nodes report, and not of CfgTRES",
    "cases 35": "not read by gputab: what is free is of its own grants, and not of a node's state in Slurm",
}

_NAME = re.compile(r"\b(?:metering [A-D]|cases )\d{1,2}\b")


def _tests(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


@pytest.fixture(scope="module")
def named() -> set[str]:
    """Cases that the docstring of some test of the meter names."""
    paths = sorted(FOLDER.rglob("test_*.py"))
    docstrings = [ast.get_docstring(test) or "" for path in paths for test in _tests(path)]
    return {name for text in docstrings for name in _NAME.findall(text)}


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_shown_or_is_none_of_ours(named: set[str], case: str) -> None:
    shown = case in named or case in SHOWN
    assert shown or case in NO_PART_OF_IT, f"no test says that it shows {case}: {CASES[case]}"
    assert not (shown and case in NO_PART_OF_IT), f"{case} is shown: {CASES[case]}"


@pytest.mark.parametrize("case", SHOWN)
def test_a_case_that_is_shown_elsewhere_is_shown_by_a_test_that_is_there(case: str) -> None:
    path, _, name = SHOWN[case].partition("::")
    assert name in {test.name for test in _tests(TESTS / path)}, f"{SHOWN[case]} is gone: {CASES[case]}"


def test_no_case_is_named_that_is_not_on_the_list(named: set[str]) -> None:
    """Or a slip of the pen would look like a proof."""
    assert named | SHOWN.keys() | NO_PART_OF_IT.keys() <= CASES.keys()
