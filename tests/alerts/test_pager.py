"""What on-call is told of a card, whatever order its alerts end in, and who is asked before it is called resolved."""

from datetime import UTC, datetime

import pytest

from alerts.pager import ENDED_MAX, GIVEN_UP_AFTER_S
from alerts.readings import CardKey
from domain.clock import MICROSECONDS
from tests.alerts.desk import CARD, START_US, Desk
from tests.alerts.notifications import NODE, alert, notification


@pytest.fixture
def desk() -> Desk:
    return Desk()


CRITICAL = notification(alert("VramCritical", "firing"))
RESOLVED = notification(alert("VramCritical", "resolved"))


def test_a_crossing_and_a_confirmed_recovery_are_two_pages(desk: Desk) -> None:
    desk.pager.take(CRITICAL)
    desk.readings.ratios[CARD] = 0.5
    desk.pager.take(RESOLVED)
    assert desk.told == [("firing", "critical", False), ("resolved", "critical", False)]
    assert desk.pages[1].note == "50.0% of the VRAM is used now"
    desk.pager.look_again()
    assert len(desk.pages) == 2


def test_the_highest_level_is_the_cards_whatever_the_order(desk: Desk) -> None:
    desk.pager.take(
        notification(alert("VramWarning", "firing"), alert("VramCritical", "firing"), alert("VramHigh", "firing"))
    )
    assert desk.told == [("firing", "critical", False)]


def test_a_level_that_ends_while_a_lower_one_fires_is_a_fall_not_a_recovery(desk: Desk) -> None:
    """The readings are not asked: vmalert has just said how the card is."""
    desk.pager.take(CRITICAL)
    desk.pager.take(notification(alert("VramCritical", "resolved"), alert("VramHigh", "firing")))
    assert desk.told[1:] == [("firing", "high", False)]
    assert desk.readings.questions == 0


def test_the_same_again_is_told_as_a_repeat(desk: Desk) -> None:
    desk.pager.take(CRITICAL)
    desk.pager.take(CRITICAL)
    desk.readings.ratios[CARD] = 0.5
    desk.pager.take(RESOLVED)
    desk.pager.take(RESOLVED)
    assert desk.told == [
        ("firing", "critical", False),
        ("firing", "critical", True),
        ("resolved", "critical", False),
        ("resolved", "critical", True),
    ]


def test_resolved_without_a_fresh_reading_is_state_unknown_until_there_is_one(desk: Desk) -> None:
    desk.pager.take(CRITICAL)
    desk.pager.take(RESOLVED)
    assert desk.told[1:] == [("state unknown", "critical", False)]
    assert "no fresh reading" in desk.pages[1].note
    assert desk.pages[1].annotations["runbook_url"] == "docs/runbooks/vram-state-unknown.md"
    desk.pager.look_again()
    assert len(desk.pages) == 2
    desk.readings.ratios[CARD] = 0.4
    desk.pager.look_again()
    assert desk.told[2:] == [("resolved", "critical", False)]
    desk.pager.look_again()
    assert len(desk.pages) == 3


def test_resolved_while_the_store_is_away_is_state_unknown_and_says_why(desk: Desk) -> None:
    desk.pager.take(CRITICAL)
    desk.readings.is_away = True
    desk.pager.take(RESOLVED)
    assert desk.told[1:] == [("state unknown", "critical", False)]
    assert "the store cannot be asked: cannot query samples: no answer; start it" in desk.pages[1].note
    desk.readings.is_away = False
    desk.readings.ratios[CARD] = 0.99
    desk.pager.look_again()
    assert desk.told[2:] == [("firing", "critical", False)]


def test_resolved_while_the_card_is_still_full_is_told_as_firing(desk: Desk) -> None:
    """vmalert died, and Alertmanager has not heard of the alert for a while."""
    desk.pager.take(CRITICAL)
    desk.readings.ratios[CARD] = 0.97
    desk.pager.take(RESOLVED)
    assert desk.told[1:] == [("resolved", "critical", False)]
    desk.pager.take(CRITICAL)
    desk.readings.ratios[CARD] = 0.98
    desk.pager.take(RESOLVED)
    assert desk.told[3:] == [("firing", "critical", True)]
    assert "see whether vmalert runs" in desk.pages[3].note


def test_an_alert_that_fires_again_ends_the_doubt(desk: Desk) -> None:
    desk.pager.take(RESOLVED)
    desk.pager.take(CRITICAL)
    questions = desk.readings.questions
    desk.pager.look_again()
    assert desk.readings.questions == questions
    assert desk.told == [("state unknown", "critical", False), ("firing", "critical", False)]


def test_a_silent_card_is_unknown_although_its_alert_fires(desk: Desk) -> None:
    desk.pager.take(CRITICAL)
    desk.pager.take(notification(alert("VramCritical", "firing"), alert("VramStateUnknown", "firing")))
    assert desk.told[1:] == [("state unknown", "critical", False)]
    assert desk.pages[1].annotations["summary"] == "VramStateUnknown of GPU-1"
    desk.pager.take(notification(alert("VramCritical", "firing"), alert("VramStateUnknown", "resolved")))
    assert desk.told[2:] == [("firing", "critical", False)]


def test_what_is_silent_for_a_day_is_given_up_and_that_is_said(desk: Desk) -> None:
    desk.pager.take(RESOLVED)
    desk.clock.advance_us(GIVEN_UP_AFTER_S * MICROSECONDS - 1)
    desk.pager.look_again()
    assert len(desk.pages) == 1
    desk.clock.advance_us(1)
    desk.pager.look_again()
    assert desk.told[1:] == [("state unknown", "critical", True)]
    assert "it is not followed up any more" in desk.pages[1].note
    questions = desk.readings.questions
    desk.pager.look_again()
    assert (len(desk.pages), desk.readings.questions) == (2, questions)


def test_a_day_in_doubt_is_counted_from_the_first_time_it_was_called_resolved(desk: Desk) -> None:
    desk.pager.take(RESOLVED)
    desk.clock.advance_us(GIVEN_UP_AFTER_S * MICROSECONDS)
    desk.pager.take(RESOLVED)
    desk.pager.look_again()
    assert "not followed up any more" in desk.pages[-1].note


def test_a_silence_that_the_rules_gave_up_after_a_day_is_not_followed_up_for_another(desk: Desk) -> None:
    """Its alerts end a day after the last reading, two minutes less than a day after they began."""
    began_us = START_US - (GIVEN_UP_AFTER_S - 120) * MICROSECONDS
    began = datetime.fromtimestamp(began_us // MICROSECONDS, UTC).isoformat()
    desk.pager.take(notification(alert("VramHigh", "resolved"), alert("VramStateUnknown", "resolved", started=began)))
    desk.clock.advance_us(120 * MICROSECONDS)
    desk.pager.look_again()
    assert desk.told == [("state unknown", "high", False), ("state unknown", "high", True)]
    assert "not followed up any more" in desk.pages[1].note


def test_a_card_that_was_heard_of_meanwhile_has_a_day_from_then(desk: Desk) -> None:
    """vmalert is away for long, and the card falls silent for a moment."""
    desk.readings.ratios[CARD] = 0.99
    desk.pager.take(RESOLVED)
    desk.clock.advance_us(GIVEN_UP_AFTER_S * MICROSECONDS)
    desk.pager.look_again()
    desk.readings.ratios.clear()
    desk.pager.look_again()
    assert desk.told == [("firing", "critical", False), ("state unknown", "critical", False)]
    assert "not followed up" not in desk.pages[1].note
    desk.readings.ratios[CARD] = 0.5
    desk.pager.look_again()
    assert desk.told[2:] == [("resolved", "critical", False)]


def test_an_alert_that_began_anew_is_no_repeat_of_one_that_ended_unheard(desk: Desk) -> None:
    """While the card was silenced in Alertmanager, nothing was told of its recovery."""
    desk.pager.take(CRITICAL)
    desk.pager.take(CRITICAL)
    desk.pager.take(notification(alert("VramCritical", "firing", started="2026-12-01T03:12:40Z")))
    assert [page.is_repeat for page in desk.pages] == [False, True, False]
    assert desk.pages[2].before is None


def test_the_store_is_asked_once_for_all_cards_in_doubt(desk: Desk) -> None:
    desk.pager.take(notification(*(alert("VramHigh", "resolved", card=f"GPU-{number}") for number in range(50))))
    assert (len(desk.pages), desk.readings.questions) == (50, 1)
    desk.pager.look_again()
    assert (len(desk.pages), desk.readings.questions) == (50, 2)


def test_cards_and_mig_instances_are_told_apart(desk: Desk) -> None:
    desk.pager.take(notification(alert("VramCritical", "firing"), alert("VramWarning", "firing", mig_uuid="MIG-1")))
    assert [page.card for page in desk.pages] == [CARD, CardKey(NODE, "GPU-1", "MIG-1")]
    assert desk.told == [("firing", "critical", False), ("firing", "warning", False)]


def test_a_page_that_could_not_be_shown_is_shown_by_the_next_try_as_new(desk: Desk) -> None:
    desk.is_out_of_paper = True
    for _ in range(2):
        with pytest.raises(RuntimeError, match="out of paper"):
            desk.pager.take(CRITICAL)
    desk.is_out_of_paper = False
    desk.pager.take(CRITICAL)
    assert desk.told == [("firing", "critical", False)]


def test_a_doubt_that_could_not_be_shown_is_shown_later(desk: Desk) -> None:
    desk.pager.take(RESOLVED)
    desk.readings.ratios[CARD] = 0.1
    desk.is_out_of_paper = True
    with pytest.raises(RuntimeError, match="out of paper"):
        desk.pager.look_again()
    desk.is_out_of_paper = False
    desk.pager.look_again()
    assert desk.told[1:] == [("resolved", "critical", False)]


def test_somebody_elses_alert_is_told_as_alertmanager_says_and_marked_as_such(desk: Desk) -> None:
    desk.pager.take(notification(alert("DiskFull", "firing", severity="page")))
    desk.pager.take(notification(alert("DiskFull", "resolved", severity="page")))
    assert desk.told == [("firing", "page", False), ("resolved", "page", False)]
    assert [page.card for page in desk.pages] == [None, None]
    assert desk.pages[1].note == "as Alertmanager says; nobody looked"
    assert desk.readings.questions == 0


def test_what_has_ended_is_not_remembered_without_end(desk: Desk) -> None:
    """The oldest is forgotten; what still fires, or is in doubt, never."""
    desk.pager.take(CRITICAL)
    oldest, newest = alert("DiskFull", "resolved", "oldest"), alert("DiskFull", "resolved", "newest")
    desk.pager.take(notification(oldest))
    desk.pager.take(notification(*(alert("DiskFull", "resolved", f"{number}") for number in range(ENDED_MAX - 1))))
    before = len(desk.pages)
    desk.pager.take(notification(newest))
    desk.pager.take(notification(newest, oldest))
    desk.pager.take(CRITICAL)
    assert [page.is_repeat for page in desk.pages[before:]] == [False, True, False, True]
