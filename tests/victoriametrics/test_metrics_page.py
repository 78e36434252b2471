"""The server's own words about its flags, as its versions write them."""

import pytest

from domain.errors import UnavailableError
from victoriametrics.metrics_page import DAY_S, MetricsPage, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 31 * DAY_S),
        ("1.5", 46.5 * DAY_S),
        ("35d", 35 * DAY_S),
        ("4w", 28 * DAY_S),
        ("100y", 36_500 * DAY_S),
        ("24h", DAY_S),
        ("1h30m", 5_400),
        ("1m0s", 60),
        ("0s", 0),
        ("250ms", 0.25),
    ],
)
def test_a_duration_is_read_as_the_server_reads_it(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "y", "3 d", "-1d", "1d!", "forever", "1h30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text or "^$"):
        parse_duration_s(text)


def test_a_flag_that_cannot_be_read_is_named_with_its_value() -> None:
    page = MetricsPage("http://vm:8428", 'flag{name="retentionPeriod", value="soon", is_set="true"} 1\n')

    with pytest.raises(UnavailableError, match=r"cannot read -retentionPeriod='soon' of VictoriaMetrics"):
        page.duration_s("retentionPeriod")


def test_a_page_of_something_else_is_not_taken_for_a_server_without_limits() -> None:
    page = MetricsPage("http://vmauth:8427", 'vmauth_http_requests_total 5\nflag{name="auth.config", value=""} 1\n')

    with pytest.raises(UnavailableError, match="point at a single-node VictoriaMetrics"):
        page.duration_s("retentionPeriod")


def test_rows_of_all_formats_that_could_not_be_parsed_are_one_reason() -> None:
    page = MetricsPage(
        "http://vm:8428",
        'vm_rows_invalid_total{type="influx"} 2\n'
        'vm_rows_invalid_total{type="vmimport"} 5\n'
        'vm_rows_ignored_total{reason="small_timestamp"} 7\n',
    )

    assert page.dropped_rows == {"malformed": 7, "small_timestamp": 7}
