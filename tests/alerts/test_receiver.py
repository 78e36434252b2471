"""The webhook over real HTTP: 200 only for what was shown, and a reason for everything else."""

import json
import socket
import threading
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

import httpx
import pytest

from alerts.card_rules import CardRule
from alerts.notification import BODY_LIMIT_BYTES
from alerts.pager import Page, Pager
from alerts.readings import CardKey
from alerts.receiver import Receiver
from domain.clock import SystemClock
from domain.errors import UnavailableError
from tests.alerts.notifications import alert, body

DEEP = b"[" * 20_000 + b"]" * 20_000
JSON = {"Content-Type": "application/json"}


class NoReadings:
    """A store without any reading."""

    def conditions(self, rule: CardRule) -> Mapping[CardKey, bool]:
        return {}

    def used_ratios(self, cards: Collection[CardKey]) -> Mapping[CardKey, float]:
        return {}


class Desk:
    """A receiver, and what it showed and complained of."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.complaints: list[str] = []
        self.is_out_of_paper = False
        pager = Pager(self._show, NoReadings(), SystemClock())
        self.receiver = Receiver(pager, port=0, complain=self.complaints.append)

    def post(self, content: bytes, **headers: str) -> httpx.Response:
        url = self.receiver.url
        return httpx.post(url, content=content, headers=headers or JSON, trust_env=False, timeout=30)

    def _show(self, page: Page) -> None:
        if self.is_out_of_paper:
            raise OSError("out of paper")
        self.pages.append(page)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    with desk.receiver:
        yield desk


def test_a_notification_is_shown_before_it_is_answered(desk: Desk) -> None:
    assert desk.post(body(alert("VramCritical", "firing"))).status_code == 200
    assert [page.now.level for page in desk.pages] == ["critical"]
    assert desk.complaints == []


def test_what_could_not_be_shown_is_answered_500_so_that_alertmanager_tries_again(desk: Desk) -> None:
    desk.is_out_of_paper = True
    assert desk.post(body(alert("VramCritical", "firing"))).status_code == 500
    assert desk.complaints == ["cannot show a page (out of paper); Alertmanager sends it again"]
    desk.is_out_of_paper = False
    assert desk.post(body(alert("VramCritical", "firing"))).status_code == 200
    assert [page.is_repeat for page in desk.pages] == [False]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the body: Invalid JSON"),
        (b"\xff\xfe", "the body: Invalid JSON"),
        (b"null", "the body: "),
        (DEEP, "the body: "),
        (b"{}", "version: Field required"),
        (json.dumps({"version": "5", "alerts": []}).encode(), "version: "),
        (json.dumps({"version": "4", "alerts": []}).encode(), "alerts: List should have at least 1 item"),
        (body({**alert("A", "firing"), "status": "perhaps"}), "alerts.0.status: "),
        (body({**alert("A", "firing"), "labels": {"a": 1}}), "alerts.0.labels.a: "),
        (body(alert("A", "firing"), {"status": "firing"}), "alerts.1.labels: Field required"),
    ],
)
def test_garbage_is_answered_400_with_the_place_and_nothing_of_it_is_shown(
    desk: Desk, content: bytes, said: str
) -> None:
    answer = desk.post(content)
    assert answer.status_code == 400
    assert answer.text.startswith("cannot read the notification: ")
    assert said in answer.text
    assert answer.text.rstrip().endswith("send what Alertmanager's webhook sends (version 4)")
    assert desk.pages == []
    assert desk.complaints == [f"refused a notification: {answer.text.rstrip()}"]


def test_a_browser_on_this_machine_cannot_send_pages(desk: Desk) -> None:
    """It sends this type to any server without asking; for application/json it would have to ask first."""
    content = body(alert("VramCritical", "firing"))
    assert desk.post(content, **{"Content-Type": "text/plain"}).status_code == 415
    assert desk.pages == []


def test_not_even_a_page_that_made_its_name_lead_to_this_machine_can(desk: Desk) -> None:
    """It may send any type to what it takes for its own server; a browser then says whose page it is."""
    content = body(alert("VramCritical", "firing"))
    assert desk.post(content, **JSON, Origin="http://evil.example.com").status_code == 403
    assert desk.pages == []


def test_another_path_and_another_method_are_refused(desk: Desk) -> None:
    url = desk.receiver.url.removesuffix("/alerts")
    assert httpx.post(f"{url}/x", content=b"{}", headers=JSON, trust_env=False).status_code == 404
    assert httpx.get(f"{url}/alerts", trust_env=False).status_code == 501


def test_whatever_is_refused_is_complained_of(desk: Desk) -> None:
    """Alertmanager does not try again, and whoever waits for pages is to know that there was one."""
    content = body(alert("VramCritical", "firing"))
    url = desk.receiver.url.removesuffix("/alerts")
    httpx.post(f"{url}/x", content=content, headers=JSON, trust_env=False)
    desk.post(content, **{"Content-Type": "text/plain"})
    raw(desk, b"POST /alerts HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n")
    assert desk.complaints == [
        "refused a notification: cannot find '/x'; send notifications to /alerts",
        "refused a notification: cannot read the body; send application/json",
        f"refused a notification: cannot take more than {BODY_LIMIT_BYTES} bytes; group less",
    ]


def test_a_complaint_is_one_line_that_no_terminal_obeys(desk: Desk) -> None:
    evil = "\x1b]0;owned\x07\n\u202e"
    assert desk.post(body({**alert("A", "firing"), "labels": {evil: 1}})).status_code == 400
    (complaint,) = desk.complaints
    assert complaint.isprintable()


def test_a_thousand_alerts_of_one_group_are_not_too_many(desk: Desk) -> None:
    """As of somebody's rule without cards: all its alerts are one group."""
    alerts = [alert("DiskFull", "firing", card="", disk=f"{number}") for number in range(1_000)]
    for each in alerts:
        each["annotations"]["description"] = "x" * 3_000
    assert desk.post(body(*alerts)).status_code == 200
    assert len(desk.pages) == 1_000


def raw(desk: Desk, request: bytes) -> bytes:
    """The first line of the answer to these bytes; b"" where the connection is closed without one."""
    parts = urlsplit(desk.receiver.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize(
    ("length", "status"),
    [("", b"411"), ("-1", b"411"), ("1e3", b"411"), (str(BODY_LIMIT_BYTES + 1), b"413"), ("9" * 5_000, b"413")],
)
def test_a_body_without_an_end_or_beyond_the_bound_is_not_read(desk: Desk, length: str, status: bytes) -> None:
    header = f"Content-Length: {length}\r\n" if length else ""
    request = f"POST /alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{header}\r\n".encode()
    assert raw(desk, request).split()[1] == status
    assert desk.pages == []


def test_a_client_that_breaks_off_harms_nobody(desk: Desk) -> None:
    parts = urlsplit(desk.receiver.url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(b"POST /alerts HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
    assert desk.post(body(alert("VramCritical", "firing"))).status_code == 200
    assert len(desk.pages) == 1


def test_notifications_that_come_at_once_are_all_shown_one_after_the_other(desk: Desk) -> None:
    cards = [f"GPU-{number}" for number in range(20)]
    threads = [
        threading.Thread(target=desk.post, args=[body(alert("VramCritical", "firing", card=card))]) for card in cards
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(page.card.gpu_uuid for page in desk.pages if page.card) == sorted(cards)


def test_a_port_that_is_taken_is_named(desk: Desk) -> None:
    port = urlsplit(desk.receiver.url).port
    assert port is not None
    with pytest.raises(UnavailableError, match=f"cannot listen on 127.0.0.1:{port}: it is in use; give --port"):
        Receiver(Pager(desk.pages.append, NoReadings(), SystemClock()), port=port, complain=print)


def test_it_listens_on_loopback_only(desk: Desk) -> None:
    assert urlsplit(desk.receiver.url).hostname == "127.0.0.1"
    assert desk.receiver._server.server_address[0] == "127.0.0.1"
