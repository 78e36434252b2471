"""From a reading to a page on real servers: crossing, recovery, silence, a refused page, a store that is killed.

One story for all of it, since its minute is mostly waiting; each test looks at the cards that it is about.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.pager import Page
from alerts.verdicts import Verdict
from tests.alerts.duty import Duty
from tests.alerts.fleet import NODE, TENANT

# A story that is split over several processes would be told in each of them.
pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture(scope="module")
def duty(
    victoriametrics_binary: Path,
    vmalert_binary: Path,
    alertmanager_binary: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Duty]:
    """The servers after the story; every page is in `pages`."""
    folder = tmp_path_factory.mktemp("duty")
    with Duty(
        store=victoriametrics_binary,
        vmalert_binary=vmalert_binary,
        alertmanager_binary=alertmanager_binary,
        folder=folder,
    ) as duty:
        _play(duty)
        yield duty


def _play(duty: Duty) -> None:
    percent = duty.fleet.percent
    percent.update({"recovers": 99, "vanishes": 99, "returns": 99, "refused": 99, "climbs": 94, "well": 50})
    percent["falls"] = 50
    duty.fleet.lost.add("falls")
    duty.failing.add("refused")
    crossed = ("recovers", "vanishes", "returns", "climbs", "falls")
    duty.wait_for("the first pages", lambda: all(duty.pages[card] for card in crossed))
    duty.wait_for("a refused page", lambda: duty.failed_requests() >= 1)
    duty.failing.clear()
    percent.update({"recovers": 50, "vanishes": None, "returns": None, "climbs": 99, "well": None, "falls": None})
    duty.wait_for("the page that was refused", lambda: bool(duty.pages["refused"]))
    _wait(duty, Verdict.RESOLVED, "recovers")
    duty.wait_for("a climb", lambda: duty.pages["climbs"][-1].now.level == "critical")
    _wait(duty, Verdict.UNKNOWN, "vanishes", "returns")
    percent.update({"vanishes": 50, "returns": 99})
    _wait(duty, Verdict.RESOLVED, "vanishes")
    _wait(duty, Verdict.FIRING, "returns")
    duty.kill_store()
    _wait(duty, Verdict.UNKNOWN, "climbs", "refused", "falls")
    percent["climbs"] = 50
    duty.restart_store()
    _wait(duty, Verdict.RESOLVED, "climbs")
    # No reading says how this one is: vmalert is at work again.
    _wait(duty, Verdict.FIRING, "refused", "falls")
    duty.fleet.lost.clear()
    percent["falls"] = 50
    _wait(duty, Verdict.RESOLVED, "falls", "climbs")


def _wait(duty: Duty, verdict: Verdict, *cards: str) -> None:
    """Until that is the last thing told of each of these cards."""

    def are_so() -> bool:
        return all(duty.pages[card] and duty.pages[card][-1].now.verdict is verdict for card in cards)

    duty.wait_for(f"{verdict.value} of {', '.join(cards)}", are_so)


def changes(pages: list[Page]) -> list[tuple[str, str]]:
    """What was told of a card, repeats left out."""
    return [(page.now.verdict.value, page.now.level) for page in pages if not page.is_repeat]


def test_a_crossing_is_a_page_with_all_that_on_call_needs(duty: Duty) -> None:
    words = duty.pages["recovers"][0].annotations
    card, tenant, used, since = words["description"].splitlines()
    assert card == f"card: {NODE}/0, NVIDIA H200, recovers"
    assert tenant == f"tenant: {TENANT}"
    assert used == "used: 99GiB of 100GiB (99%)"
    assert since.startswith("since: 20")
    assert words["summary"] == f"VRAM of {NODE}/0 has reached 98%"
    assert words["runbook_url"] == "docs/runbooks/vram-watermark.md"


def test_a_recovery_is_told_as_resolved_with_the_present_reading(duty: Duty) -> None:
    pages = duty.pages["recovers"]
    assert changes(pages)[0] == ("firing", "critical")
    assert changes(pages)[-1][0] == "resolved"
    assert not any(page.now.verdict is Verdict.UNKNOWN for page in pages)
    assert pages[-1].note == "50.0% of the VRAM is used now"


def test_a_card_that_falls_silent_is_unknown_and_resolved_only_by_a_fresh_reading(duty: Duty) -> None:
    told = changes(duty.pages["vanishes"])
    assert told[:2] == [("firing", "critical"), ("state unknown", "critical")]
    assert [verdict for verdict, _ in told].count("resolved") == 1
    assert told[-1][0] == "resolved"


def test_a_card_that_comes_back_full_fires_on_and_was_never_called_resolved(duty: Duty) -> None:
    told = changes(duty.pages["returns"])
    assert told[:3] == [("firing", "critical"), ("state unknown", "critical"), ("firing", "critical")]
    assert "resolved" not in [verdict for verdict, _ in told]


def test_only_the_highest_level_pages(duty: Duty) -> None:
    """Above the highest mark all three alerts fire; the one between was never told of."""
    assert changes(duty.pages["climbs"])[:2] == [("firing", "warning"), ("firing", "critical")]
    for card in ("recovers", "vanishes", "returns", "refused"):
        assert changes(duty.pages[card])[0] == ("firing", "critical")


def test_a_page_that_was_refused_is_delivered_later_and_the_failure_can_be_seen(duty: Duty) -> None:
    assert changes(duty.pages["refused"])[0] == ("firing", "critical")
    assert any("out of paper" in complaint for complaint in duty.complaints)
    assert duty.failed_requests() >= 1


def test_a_store_that_is_killed_resolves_nothing(duty: Duty) -> None:
    """Alertmanager calls it resolved, since vmalert has nothing to say any more."""
    unknown = [page for page in duty.pages["refused"] if page.now.verdict is Verdict.UNKNOWN]
    assert "the store cannot be asked" in unknown[0].note
    assert "resolved" not in [verdict for verdict, _ in changes(duty.pages["refused"])]


def test_when_the_store_is_back_each_card_is_told_as_it_is(duty: Duty) -> None:
    assert changes(duty.pages["climbs"])[-1][0] == "resolved"
    assert changes(duty.pages["refused"])[-1] == ("firing", "critical")


def test_a_card_that_is_lost_and_then_silent_is_back_only_when_it_says_so(duty: Duty) -> None:
    """L1: neither the death of its collector nor that of the store is taken for its recovery."""
    pages = duty.pages["falls"]
    assert changes(pages)[0] == ("firing", "card lost")
    assert pages[0].annotations["summary"] == f"{NODE}/6 is lost: its driver does not reach it"
    assert f"tenant: {TENANT}\n" in pages[0].annotations["description"]
    assert changes(pages)[1] == ("state unknown", "card lost"), "its silence alone changes nothing"
    assert [verdict for verdict, _ in changes(pages)].count("resolved") == 1
    assert (changes(pages)[-1], pages[-1].note) == (("resolved", "card lost"), "it is heard of, and that is over")


def test_a_card_that_was_never_above_a_mark_is_nobodys_business(duty: Duty) -> None:
    assert duty.pages["well"] == []
