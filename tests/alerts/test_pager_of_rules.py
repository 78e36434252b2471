"""What on-call is told of a card beside its VRAM, and of a node; its end is believed no sooner."""

import pytest

from alerts.readings import CardKey
from tests.alerts.desk import CARD, Desk
from tests.alerts.notifications import NODE, alert, notification


@pytest.fixture
def desk() -> Desk:
    return Desk()


FULL = notification(alert("VramCritical", "firing"))
LOST = notification(alert("CardLost", "firing"))
FOUND = notification(alert("CardLost", "resolved"))


def test_a_lost_card_is_back_when_its_driver_says_so(desk: Desk) -> None:
    desk.pager.take(LOST)
    desk.readings.holding["CardLost", CARD] = False
    desk.pager.take(FOUND)
    assert desk.told == [("firing", "card lost", False), ("resolved", "card lost", False)]
    assert (desk.pages[1].card, desk.pages[1].note) == (CARD, "it is heard of, and that is over")
    assert desk.readings.questions == 1


def test_a_lost_card_that_is_not_heard_of_is_unknown_until_it_is(desk: Desk) -> None:
    """Its collector died, or vmalert: neither is a recovery, and the runbook stays its own."""
    desk.pager.take(LOST)
    desk.pager.take(FOUND)
    desk.readings.holding["CardLost", CARD] = True
    desk.pager.look_again()
    desk.readings.is_away = True
    desk.pager.look_again()
    desk.readings.is_away = False
    desk.readings.holding["CardLost", CARD] = False
    desk.pager.look_again()
    assert [verdict for verdict, _, _ in desk.told] == [
        "firing",
        "state unknown",
        "firing",
        "state unknown",
        "resolved",
    ]
    assert "nothing is heard of it" in desk.pages[1].note
    assert "see whether vmalert runs" in desk.pages[2].note
    assert "the store cannot be asked" in desk.pages[3].note
    assert desk.pages[1].annotations == desk.pages[0].annotations
    questions = desk.readings.questions
    desk.pager.look_again()
    assert desk.readings.questions == questions


def test_what_is_wrong_with_a_card_beside_its_vram_is_a_subject_of_its_own(desk: Desk) -> None:
    desk.pager.take(FULL)
    desk.pager.take(LOST)
    desk.pager.take(notification(alert("ProfilingStuck", "firing")))
    desk.readings.ratios[CARD] = 0.5
    desk.pager.take(notification(alert("VramCritical", "resolved")))
    assert desk.told == [
        ("firing", "critical", False),
        ("firing", "card lost", False),
        ("firing", "profiling stuck", False),
        ("resolved", "critical", False),
    ]


def test_an_alert_of_a_node_is_about_the_node(desk: Desk) -> None:
    told = alert("SeveralCollectors", "firing")
    del told["labels"]["gpu_uuid"]
    desk.pager.take(notification(told))
    desk.readings.holding["SeveralCollectors", CardKey(NODE, "", "")] = False
    desk.pager.take(notification({**told, "status": "resolved"}))
    assert desk.told == [("firing", "several collectors", False), ("resolved", "several collectors", False)]
    assert desk.pages[0].card == CardKey(NODE, "", "")


def test_the_store_is_asked_once_a_rule(desk: Desk) -> None:
    cards = [f"GPU-{number}" for number in range(50)]
    desk.pager.take(
        notification(*(alert(name, "resolved", card) for card in cards for name in ("CardLost", "CardMute")))
    )
    assert (len(desk.pages), desk.readings.questions) == (100, 2)
