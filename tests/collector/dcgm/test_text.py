"""The text of dcgm-exporter: every line is a sample, is not looked for, or is told with the reason."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.dcgm.text import DcgmSample, dcgm_samples
from tests.collector.dcgm_pages import line, read_samples

ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
USED = "DCGM_FI_DEV_FB_USED"


def test_a_line_has_its_number_its_labels_and_its_value() -> None:
    text = f"# HELP {USED} Framebuffer memory used (in MiB).\n\n{line(USED, 5120)}\r\n"

    (sample,) = read_samples(text)

    assert (sample.line, sample.name, sample.value, sample.time_us, sample.problem) == (3, USED, 5120, None, None)
    assert sample.labels["UUID"] == "GPU-1"


def test_a_space_after_the_comma_and_a_line_without_labels_are_read() -> None:
    """The exporter's own README writes the one; nothing forbids the other."""
    spaced, bare = read_samples(f'{USED}{{gpu="0", UUID="GPU-1",pod=""}} 1\n{USED} 2\n')

    assert spaced.labels == {"gpu": "0", "UUID": "GPU-1", "pod": ""}
    assert (bare.labels, bare.value) == ({}, 2)


@pytest.mark.parametrize(
    ("stamp", "time_us"), [("1790000000123", 1_790_000_000_123_000), ("0", 0), ("-1000", -1_000_000)]
)
def test_a_time_of_its_own_is_read_in_milliseconds(stamp: str, time_us: int) -> None:
    (sample,) = read_samples(f"{line(USED, 7)} {stamp}\n")

    assert (sample.value, sample.time_us) == (7, time_us)


@pytest.mark.parametrize(
    "words", ["ERROR - FAILED TO CONVERT TO STRING", "<<<NULL>>>", "NaN", "+Inf", "9" * 400, "", "0x10"]
)
def test_words_where_a_number_belongs_cost_that_line_only(words: str) -> None:
    """The exporter writes the first where DCGM answers with text; its labels can be read all the same."""
    before, bad, after = read_samples(f"{line(USED, 1)}\n{line(USED, words)}\n{line(USED, 3)}\n")

    assert (before.value, after.value) == (1, 3)
    assert bad.value is None
    assert bad.problem == f"{USED}: {words[:40]!r} is no number"
    assert bad.labels["UUID"] == "GPU-1"


def test_words_in_a_field_that_nobody_looks_for_are_told_and_its_numbers_are_not() -> None:
    lines = [line("DCGM_FI_DEV_VGPU_PER_PROCESS_UTILIZATION", "ERROR"), line("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 4)]

    (bad,) = read_samples("\n".join(lines))

    assert (bad.line, bad.value) == (1, None)


def test_what_no_field_is_called_does_not_steer_the_terminal_that_it_is_told_on() -> None:
    (bad,) = read_samples("\x1b[31mDCGM\x07 ERROR\n")

    assert bad.problem == "?[31mDCGM?: 'ERROR' is no number"


@pytest.mark.parametrize("pod", ['team "a"\\b', 'a"b', "a\\", 'a"}', "a\\x", 'a" , "b', "{", 'say: "no", he said', ""])
def test_r17_labels_that_are_not_escaped_are_read_as_they_are(pod: str) -> None:
    """R17: dcgm-exporter writes labels as they are, so that a quote or a backslash in one makes no valid line."""
    found = read_samples(f"{line(USED, 1, pod=pod, namespace='n')}\n{line(USED, 3)}\n")

    assert [(sample.line, sample.value, sample.problem) for sample in found] == [(1, 1, None), (2, 3, None)]
    assert found[0].labels.get("pod", "") == pod
    assert (found[0].labels["UUID"], found[0].labels["namespace"]) == ("GPU-1", "n")


def test_r17_labels_that_are_escaped_are_read_back_equal() -> None:
    """R17: behind a Prometheus they are."""
    (sample,) = read_samples(line(USED, 1, pod=r"team \"a\"\\b\n"))

    assert sample.labels["pod"] == 'team "a"\\b\n'


@pytest.mark.parametrize("pod", ['a",UUID="GPU-evil', 'a",pod="b', '"",pod="'])
def test_r17_a_line_in_which_a_label_stands_twice_is_lost_and_told(pod: str) -> None:
    """R17: which of the two it is cannot be told; the lines beside it are read."""
    found = read_samples(f"{line(USED, 1, pod=pod)}\n{line(USED, 3)}\n")

    assert [(sample.line, sample.value) for sample in found] == [(1, None), (2, 3)]
    assert found[0].problem == f"{USED}: no labels, value and time can be read"


def test_whole_numbers_are_exact_however_large() -> None:
    """As a float, a blank of 64 bits would lose the digits that say why it is one."""
    (sample,) = read_samples(line(USED, 2**63 - 14))

    assert sample.value == 2**63 - 14


@pytest.mark.parametrize("stamp", ["words", "1e999", "1_000"])
def test_a_time_that_is_none_costs_the_line(stamp: str) -> None:
    (sample,) = read_samples(f"{line(USED, 5)} {stamp}")

    assert (sample.value, sample.problem) == (None, f"{USED}: no labels, value and time can be read")


def test_a_line_that_never_ends_is_given_up_before_it_is_parsed() -> None:
    """A page of garbage must not hold the collector up: every character of a line is looked at several times."""
    (sample,) = read_samples(USED + '{a="' + '\\"' * 200_000)

    assert sample.problem == f"a line of {len(USED) + 4 + 400_000} characters"


@example("{")
@example("{} 1")
@given(st.text(max_size=200) | st.text('DCGM_FI_DEV_FB_USED{}="\\, 1#-e.\n', max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    for sample in read_samples(text):
        assert isinstance(sample, DcgmSample)
        assert (sample.value is None) == (sample.problem is not None)


def test_only_what_is_looked_for_is_parsed() -> None:
    (sample,) = dcgm_samples([(1, line(ENERGY, 5)), (2, line(USED, 6))], frozenset({USED}))

    assert (sample.line, sample.value) == (2, 6)
