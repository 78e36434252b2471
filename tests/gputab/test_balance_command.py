"""`gputab meter balance`."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from domain.clock import MICROSECONDS as US
from domain.clock import SystemClock
from domain.period import HOUR_S, format_instant
from domain.units import GIB
from machine.process import free_port
from store.database import Database
from tests.meter import hour
from tests.meter.ledgers import add_card, add_node

Gputab = Callable[..., Any]
Record = Callable[..., None]
AT = "2026-03-01T10:00:05Z"
BEFORE = "cannot balance 'n1' at 2026-03-01T10:00:05Z: its first card is on record since 2026-03-01T10:00:11Z"
NOTHING = dict.fromkeys(("granted", "held", "idle", "stranded", "drained", "lost", "reserved", "residual"), 0)


@pytest.fixture
def n1(ledger: str) -> str:
    """A node with a card from 10.5 s into the hour of `AT` on, until an hour later; the ledger's URL."""
    with closing(Database(ledger)) as database:
        add_node(database, "n1")
        add_card(database, "GPU-1", 10.5, HOUR_S)
    return ledger


@pytest.mark.usefixtures("n1")
@pytest.mark.parametrize(
    ("node", "at", "problem"),
    [
        ("n2", AT, "cannot find a card of the node 'n2': use one of n1"),
        ("n1", AT, f"{BEFORE}; ask from then on"),
        ("n1", "2026-03-01T10:00:10.999999Z", "cannot balance 'n1' at 2026-03-01T10:00:10Z: its first card is on"),
        (
            "n1",
            "9999-01-01T00:00:00Z",
            "cannot balance the second of '9999-01-01T00:00:00Z': it is yet to come; now is",
        ),
        ("n1", "2026-03-01T10:00", "cannot use the naive time '2026-03-01T10:00'"),
        ("", AT, "cannot balance a node without a name: grants without a device are on no card"),
    ],
)
def test_a_second_that_cannot_be_shown_is_refused_with_the_remedy(
    gputab: Gputab, node: str, at: str, problem: str
) -> None:
    refused = gputab("meter", "balance", "--node", node, "--at", at)
    assert (refused.code, refused.out) == (2, "")
    assert refused.line.startswith(f"gputab: {problem}")


@pytest.mark.usefixtures("ledger")
def test_without_any_node_there_is_none_to_use(gputab: Gputab) -> None:
    refused = gputab("meter", "balance", "--node", "n1", "--at", AT)
    assert (refused.code, refused.line) == (
        2,
        "gputab: cannot find a card of the node 'n1': no node has reported its cards yet; start its collector",
    )


def test_of_many_nodes_some_are_named(gputab: Gputab, ledger: str) -> None:
    with closing(Database(ledger)) as database:
        for number in range(11):
            add_node(database, f"n{number:02}")
            add_card(database, f"GPU-{number}", node=f"n{number:02}")
    refused = gputab("meter", "balance", "--node", "x", "--at", AT)
    assert refused.line.endswith(f"use one of {', '.join(f'n{number:02}' for number in range(10))}, ...")


@pytest.mark.usefixtures("n1")
def test_a_store_that_is_down_is_exit_code_1_and_one_line(gputab: Gputab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was lost is not known then, and nothing is guessed."""
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    refused = gputab("meter", "balance", "--node", "n1", "--at", "2026-03-01T10:00:11Z")
    assert (refused.code, refused.out) == (1, "")
    assert url in refused.line


@pytest.fixture
def start_s(
    gputab: Gputab,
    place: Path,
    ledger: str,
    record: Record,
    victoriametrics_url: str,
    unique_node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> int:
    """The hour, four days ago, in which acme held the first of two cards for 8 s and the second was lost in second 5.

    acme held a third, of which no inventory knows, from second 8 to 10. The cards went with second 20.
    """
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    start_s = (SystemClock().now_us() // US // HOUR_S - 100) * HOUR_S
    with closing(Database(ledger)) as database:
        add_node(database, unique_node)
        for index in (0, 1):
            ends = start_s - hour.HOUR_S
            add_card(database, f"{unique_node}-{index}", ends, ends + 20, node=unique_node, index=index)
    lines = ["time,node,gpu_uuid,gpu_memory_used_bytes,gpu_up"]
    for second in range(20):
        lines.append(f"{start_s + second},{unique_node},{unique_node}-0,{2**30},1")
        lines.append(f"{start_s + second},{unique_node},{unique_node}-1,{2**30},{0 if second == 5 else 1}")
    (place / "samples.csv").write_text("\n".join(lines) + "\n", "utf-8")
    done = gputab("samples", "import", "samples.csv", "--hold", "1")
    assert done.code == 0, done.err
    start, middle, end = (format_instant((start_s + offset) * US) for offset in (0, 8, 10))
    of_node = {"node": unique_node, "vram_mib": str(24 * 1024)}
    record(
        {"allocation": "a1", "gpu_uuid": f"{unique_node}-0", "start": start, "end": middle, **of_node},
        {"allocation": "a2", "gpu_uuid": "GPU-404", "start": middle, "end": end, **of_node},
    )
    return start_s


def test_a_second_is_shown_by_what_was_observed_before_and_after_its_hour_settles(
    gputab: Gputab, start_s: int, unique_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen evidence answers when the store is down; the hour is past its deadline, so that one run settles it."""

    def balance(offset: float, *words: str) -> Any:
        at = format_instant(round((start_s + offset) * US))
        return gputab("meter", "balance", "--node", unique_node, "--at", at, *words)

    open_ = balance(5.75, "--format", "json")
    assert open_.code == 0, open_.err
    first, second = open_.data["rows"]
    assert {key: value for key, value in open_.data.items() if key != "rows"} == {
        "node": unique_node,
        "second": format_instant((start_s + 5) * US),
        "residual_compute": 0,
        "residual_vram": 0,
        "uncovered": [],
        "evidence": "store",
    }
    assert first["compute"] == {**NOTHING, "total": 1_000, "granted": 1_000}
    assert first["vram"] == {**NOTHING, "total": 25 * GIB, "granted": 24 * GIB, "reserved": GIB}
    assert second["compute"] == {**NOTHING, "total": 1_000, "lost": 1_000}
    assert second["vram"] == {**NOTHING, "total": 25 * GIB, "lost": 24 * GIB, "reserved": GIB}
    assert (first["presence"], second["presence"], second["sold"], second["state"]) == (
        "sampled",
        "lost",
        "whole",
        "ok",
    )
    take = {"compute_units": 1_000, "vram_bytes": 24 * GIB, "mig_uuid": None, "kind": "whole", "node": unique_node}
    take |= {"state": "granted", "allocation": "a1", "ordinal": 0, "tenant": "acme", "project": "vision"}
    assert (first["takes"], second["takes"], first["instances"]) == ([take], [], [])
    # One more second and the card is back; of the one whose card nobody reported nothing is known.
    assert [row["compute"]["idle"] for row in balance(6, "--format", "json").data["rows"]] == [0, 1_000]
    uncovered = balance(8, "--format", "json").data
    assert (uncovered["residual_compute"], uncovered["residual_vram"]) == (None, None)
    assert [(each["gpu_uuid"], each["allocation"]) for each in uncovered["uncovered"]] == [("GPU-404", "a2")]
    assert balance(20, "--format", "json").data["rows"] == []

    period = ("--from", format_instant(start_s * US), "--to", format_instant((start_s + 1) * US))
    assert gputab("meter", "run", *period).code == 0
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", f"http://127.0.0.1:{free_port()}")
    frozen = balance(5.75, "--format", "json")
    assert frozen.data == {**open_.data, "evidence": "frozen"}
    table = balance(5.75)
    assert (table.code, table.err) == (0, "")
    assert "seen in the frozen evidence of its hour  residual 0 compute units, 0 MiB" in table.out
    assert "granted a1 (acme/vision)" in table.out
    assert "\x1b" not in table.out
