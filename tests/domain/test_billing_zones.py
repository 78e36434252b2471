"""A billing zone is one of the IANA list, so that a tenant's days are the same on every machine."""

from datetime import date
from zoneinfo import available_timezones

import pytest

from domain.errors import InputError
from domain.period import billing_date, billing_zone


@pytest.mark.parametrize(
    "name",
    [
        "localtime",
        "posixrules",
        "Factory",
        "right/UTC",
        "posix/UTC",
        "Mars/Olympus",
        "asia/shanghai",
        "UTC\n",
        "",
        "../UTC",
        "/etc/localtime",
        "tzdata.zi",
        "Europe",
        "\ud800",
        "a\0b",
    ],
)
def test_what_only_this_machine_knows_is_no_zone(name: str) -> None:
    with pytest.raises(InputError, match=r"^cannot find the time zone .*: use an IANA name such as 'UTC'"):
        billing_zone(name)


def test_no_zone_outside_the_list_is_taken_whatever_the_machine_has() -> None:
    taken = set()
    for name in available_timezones():
        try:
            taken.add(billing_zone(name).key)
        except InputError:
            continue
    assert {"UTC", "Asia/Shanghai", "Europe/Vienna", "EST5EDT", "Etc/GMT+12"} <= taken
    assert not {name for name in taken if name.startswith(("posix/", "right/")) or name in {"localtime", "Factory"}}


def test_the_days_of_a_zone_are_its_own() -> None:
    assert billing_date(1_767_200_400_000_000, billing_zone("Asia/Shanghai")) == date(2026, 1, 1)
    assert billing_date(1_767_200_400_000_000, billing_zone("UTC")) == date(2025, 12, 31)
