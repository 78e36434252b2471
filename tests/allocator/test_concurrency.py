"""No capacity is granted twice, whoever asks at once."""

import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import httpx

from allocator.allocation_store import create
from allocator.request import AllocationRequest
from domain.grants import OPEN_END_US, GrantKind
from machine.process import free_port
from store.access import Principal
from store.tables.capacity import device_periods, grants, node_contacts, nodes

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

CLIENTS = 16
SERVE = """
import sys
import uvicorn
from allocator.service import create_app
from domain.capacity import ShareGrain
from domain.skus import load_skus
from store.database import Database
url, port = sys.argv[1:]
app = create_app(Database(url), skus=load_skus(), share_grain=ShareGrain(100, 2**30), sink=None)
uvicorn.run(app, port=int(port), log_level="warning")
"""


def most_at_once(rows: Sequence[Any], weight: Callable[[Any], Fraction]) -> Fraction:
    """The largest sum of weights that run at one instant."""
    changes: dict[int, Fraction] = defaultdict(Fraction)
    for row in rows:
        changes[row.start_us] += weight(row)
        changes[OPEN_END_US if row.end_us is None else row.end_us] -= weight(row)
    running = largest = Fraction(0)
    for at_us in sorted(changes):
        running += changes[at_us]
        largest = max(largest, running)
    return largest


def assert_nothing_is_granted_twice(ledger: "Ledger") -> None:
    """Over all time: a card's compute and usable VRAM once, a MIG instance once."""
    cards = {row.gpu_uuid: row for row in ledger.rows(device_periods)}
    by_card: dict[str, list[Any]] = defaultdict(list)
    by_instance: dict[str, list[Any]] = defaultdict(list)
    for row in ledger.rows(grants):
        by_card[row.gpu_uuid].append(row)
        if row.mig_uuid:
            by_instance[row.mig_uuid].append(row)
    for gpu_uuid, rows in by_card.items():
        card = cards[gpu_uuid]
        usable_bytes = card.vram_total_bytes - (0 if card.mig_enabled else card.vram_reserved_bytes)
        assert most_at_once(rows, lambda row: Fraction(row.compute_units)) <= card.compute_units
        assert most_at_once(rows, lambda row: Fraction(row.vram_bytes)) <= usable_bytes
    for rows in by_instance.values():
        assert most_at_once(rows, lambda row: Fraction(1)) == 1


def run_all(work: Sequence[Callable[[], None]]) -> None:
    """Run everything at once; an exception of any of them is raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(work))

    def run(each: Callable[[], None]) -> None:
        try:
            barrier.wait()
            each()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def customer(url: str, token: str, seed: int, rounds: int) -> Callable[[], None]:
    """Asks for this and that, and gives some of it back."""

    def work() -> None:
        choice = random.Random(seed)
        held: list[str] = []
        orders: list[dict[str, Any]] = [
            {"kind": "whole", "count": 1},
            {"kind": "whole", "count": 2},
            {"kind": "share", "milli_gpu": 300},
            {"kind": "share", "milli_gpu": 500, "vram_mib": 9_000},
            {"kind": "mig", "mig_profile": "1g.10gb"},
        ]
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
            for _ in range(rounds):
                if held and choice.random() < 0.4:
                    answer = http.post(f"/v1/allocations/{held.pop(choice.randrange(len(held)))}/release")
                    assert answer.status_code == 200
                else:
                    answer = http.post("/v1/allocations", json={"project": "lab", **choice.choice(orders)})
                    assert answer.status_code in (201, 409), answer.text
                    if answer.status_code == 201:
                        held.append(answer.json()["allocation"])

    return work


def test_sixteen_clients_at_once_never_get_the_same_capacity(furnished: "Service", ledger: "Ledger") -> None:
    """HAMi #2232: two requests read the same free card before either had taken it."""
    tokens = [ledger.tokens[("acme", "beta")[seed % 2]] for seed in range(CLIENTS)]
    run_all([customer(furnished.url, token, seed, rounds=8) for seed, token in enumerate(tokens)])
    assert len(ledger.rows(grants)) > CLIENTS
    assert_nothing_is_granted_twice(ledger)


def test_sixteen_clients_who_want_the_last_card_are_one_holder_and_fifteen_refusals(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """dstack #3403: several jobs on an instance with one block."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    statuses: list[int] = []
    run_all([lambda: statuses.append(service.ask("acme", kind="whole").status_code)] * CLIENTS)
    assert sorted(statuses) == [201] + [409] * (CLIENTS - 1)
    assert len(ledger.rows(grants)) == 1


def test_a_choice_waits_for_the_one_before_it(furnished: "Service", ledger: "Ledger") -> None:
    """Two shares of one card, the first not committed yet: rows that are not there cannot be locked."""
    request = AllocationRequest("acme", "lab", GrantKind.SHARE, milli_gpu=600, model="NVIDIA GeForce RTX 4090")
    operator = Principal.local_operator()
    chosen: list[str] = []

    def choose() -> None:
        with ledger.database.write() as connection:
            create(connection, operator, request)
            chosen.append("second")

    second = threading.Thread(target=choose)
    with ledger.database.write() as connection:
        create(connection, operator, request)
        second.start()
        second.join(timeout=0.3)
        chosen.append("first")
    second.join()
    assert chosen == ["first", "second"]
    assert_nothing_is_granted_twice(ledger)


def test_a_node_that_says_everything_for_the_first_time_at_once_is_one_node(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    statuses: list[int] = []
    second = ledger.now_s()

    def beat() -> None:
        statuses.append(service.call("PUT", "/v1/nodes/n1/heartbeat", "n1").status_code)

    def report() -> None:
        statuses.append(service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=second).status_code)

    run_all([beat, report] * (CLIENTS // 2))
    assert statuses == [200] * CLIENTS
    assert (len(ledger.rows(nodes)), len(ledger.rows(node_contacts)), len(ledger.rows(device_periods))) == (1, 1, 1)


def test_one_key_at_once_is_one_allocation(furnished: "Service", ledger: "Ledger") -> None:
    found: list[tuple[int, str]] = []

    def ask() -> None:
        answer = furnished.ask("acme", key="k1", kind="whole")
        found.append((answer.status_code, answer.json()["allocation"]))

    run_all([ask] * CLIENTS)
    assert sorted(status for status, _ in found) == [200] * (CLIENTS - 1) + [201]
    assert len({allocation for _, allocation in found}) == 1
    assert len(ledger.rows(grants)) == 1


@contextmanager
def served(ledger: "Ledger") -> Iterator[str]:
    """The service in a process of its own."""
    port = free_port()
    command = [sys.executable, "-c", SERVE, ledger.url, str(port)]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            deadline_s = time.monotonic() + 30
            while not answers(url):
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            yield url
        finally:
            process.terminate()
            process.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def beating(service: "Service", *nodes: str) -> Iterator[None]:
    """The nodes heard from each second: where one fell silent, as while processes start, nothing is granted."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1):
            for node in nodes:
                service.call("PUT", f"/v1/nodes/{node}/heartbeat", node)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_two_processes_on_one_database_never_grant_the_same_capacity(furnished: "Service", ledger: "Ledger") -> None:
    with beating(furnished, "n1", "n2"), served(ledger) as first, served(ledger) as second:
        run_all(
            [customer((first, second)[seed % 2], ledger.tokens["acme"], seed, rounds=5) for seed in range(CLIENTS // 2)]
        )
    assert len(ledger.rows(grants)) > CLIENTS // 4
    assert_nothing_is_granted_twice(ledger)
