"""A second of a node on a terminal."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.capacity import Balance
from domain.grants import GrantKind
from domain.units import GIB, MIB
from gputab.balance_blocks import blocks, print_second
from meter.conservation.second import node_second
from store.capacity import DeviceStatePeriod, Hold
from tests.meter.capacity import STATES, make_card, make_fleet, make_h100, make_instance, span
from tests.meter.facts import make_grant, observe
from tests.meter.hour import HOUR_S

Show = Callable[..., str]
UUID = "GPU-8f3c2a10-1234-5678-9abc-def01234567"
CARDS = [
    make_card(gpu_uuid=f"{UUID}0"),
    make_card(gpu_uuid=f"{UUID}1", device_index=1, share_min_milli=100, share_min_vram_bytes=GIB),
    make_h100(gpu_uuid=f"{UUID}2", device_index=2),
]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    """What is printed of a second, in so many columns and without colour; facts replace those of an empty fleet."""

    def shown(columns: int, *cards: Any, lost: tuple[str, ...] = (), **facts: Any) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        fleet = replace(make_fleet(*cards), **facts)
        rows = [("gpu_up", card.gpu_uuid, "", "", 5, float(card.gpu_uuid not in lost)) for card in cards]
        print_second(node_second(fleet, observe(rows, end=10), HOUR_S + 5), "what the store has so far")
        return "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())

    return shown


def _mig(number: int, units: int, mib: int) -> Any:
    size: dict[str, Any] = {"compute_units": units, "compute_units_total": 132, "vram_bytes": mib * MIB}
    return make_grant(
        allocation=f"a{number}", gpu_uuid=f"{UUID}2", mig_uuid=f"MIG-{number}", kind=GrantKind.MIG, **size
    )


def _busy() -> dict[str, Any]:
    """A quarter granted and a half held of the shared card; of the H100 one 3g granted, a 1g held, a 1g foreign."""
    on_h100 = {"gpu_uuid": f"{UUID}2"}
    quarter: dict[str, Any] = {"kind": GrantKind.SHARE, "compute_units": 250, "vram_bytes": 6 * GIB}
    return {
        "instances": [
            make_instance(1, "3g.40gb", 4, 4, 60, 40_448, **on_h100),
            make_instance(2, "1g.10gb", 0, 1, 16, 9_984, **on_h100),
            make_instance(3, "1g.10gb", 1, 1, 16, 9_984, origin="foreign", **on_h100),
            make_instance(4, "1g.10gb", 2, 1, 16, 9_984, **on_h100),
        ],
        "grants": [make_grant(gpu_uuid=f"{UUID}1", **quarter), _mig(1, 60, 40_448)],
        "holds": [Hold(f"{UUID}1", None, 500, 6 * GIB + 1, span()), Hold(f"{UUID}2", "MIG-2", 16, 9_984 * MIB, span())],
    }


def test_every_card_is_two_lines_of_blocks_with_its_numbers_and_holders(show: Show) -> None:
    assert show(80, *CARDS, **_busy()) == (
        """\
n1 at 2026-03-01T10:00:05Z
seen in what the store has so far  residual 0 compute units, 0 MiB

GPU 0  NVIDIA GeForce RTX 4090  rtx4090-24g  sold whole  ok  sampled
  GPU-8f3c2a10-1234-5678-9abc-def012345670
  compute  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 1,000 units
           idle 1,000  residual 0
  VRAM     ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░== 24,576 MiB
           idle 23,552 MiB  reserved 1,024 MiB  residual 0 MiB

GPU 1  NVIDIA GeForce RTX 4090  rtx4090-24g  sold in shares  ok  sampled
  GPU-8f3c2a10-1234-5678-9abc-def012345671
  compute  ██████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░ 1,000 units
           granted 250  held 500  idle 250  residual 0
  VRAM     ██████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░░░░░░░░░░░=== 24,576 MiB
           granted 6,144 MiB  held 6,442,450,945 B  idle 11,811,160,063 B
           reserved 1,024 MiB  residual 0 MiB
  the card  250 units        6,144 MiB  granted a1 (acme/p)
  the card  500 units  6,442,450,945 B  held

GPU 2  NVIDIA H100 80GB HBM3  h100-80g  sold in MIG instances  ok  sampled
  GPU-8f3c2a10-1234-5678-9abc-def012345672
  compute  ██████████████████████████▓▓▓▓▓▓▓░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒▒▒▒ 132 SMs
           granted 60  held 16  idle 32  stranded 24  residual 0
  VRAM     ████████████████████████████▓▓▓▓▓▓▓░░░░░░░░░░░░░░▒▒▒▒▒▒▒▒= 81,559 MiB
           granted 40,448 MiB  held 9,984 MiB  idle 19,968 MiB
           stranded 10,608 MiB  reserved 551 MiB  residual 0 MiB
  MIG 2  1g.10gb  slice 0     16 SMs   9,984 MiB  held
  MIG 3  1g.10gb  slice 1     16 SMs   9,984 MiB  foreign: cannot be granted
  MIG 4  1g.10gb  slice 2     16 SMs   9,984 MiB  not granted
  MIG 1  3g.40gb  slices 4-7  60 SMs  40,448 MiB  granted a1 (acme/p)

█ granted  ▓ held  ░ idle  ▒ stranded  - drained  x lost
= reserved by the driver
"""
    )


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_the_blocks_use_it(show: Show, columns: int) -> None:
    lines = show(columns, *CARDS, **_busy()).splitlines()
    assert max(map(len, lines)) <= columns
    cells = {len(line.split()[1]) for line in lines if line.startswith(("  compute", "  VRAM"))}
    assert len(cells) <= 2
    assert max(cells) == min(columns - 2 - 9 - 1 - len("81,559 MiB"), 96)


def test_out_of_service_and_lost_are_their_own_states(show: Show) -> None:
    fan = DeviceStatePeriod(f"{UUID}0", "draining", "fan", span())
    said = show(80, *CARDS[:2], states=[fan], lost=(f"{UUID}1",))
    assert "sold whole  draining  sampled" in said
    assert f"  compute  {'-' * 57} 1,000 units\n           drained 1,000  residual 0\n" in said
    assert "sold in shares  ok  lost" in said
    assert f"  compute  {'x' * 57} 1,000 units\n           lost 1,000  residual 0\n" in said


def test_what_is_granted_beyond_the_card_has_blocks_of_its_own(show: Show) -> None:
    twice = [make_grant(gpu_uuid=f"{UUID}0", allocation=f"a{n}", vram_bytes=12 * GIB) for n in (1, 2)]
    said = show(80, CARDS[0], grants=twice)
    assert "residual 1,000 compute units, 1,024 MiB" in said
    assert f"{'█' * 29}{'!' * 28} 1,000 units\n           granted 2,000  residual -1,000\n" in said
    assert "granted 24,576 MiB  reserved 1,024 MiB  residual -1,024 MiB\n" in said
    assert "! beyond what there is" in said


def test_what_cannot_be_known_says_so_and_why(show: Show) -> None:
    """Nothing is drawn of it; who holds it is shown nevertheless."""
    overlapping = [
        make_instance(1, "3g.40gb", 0, 4, 60, 40_448, gpu_uuid=f"{UUID}2"),
        make_instance(2, "1g.10gb", 3, 1, 16, 9_984, gpu_uuid=f"{UUID}2"),
    ]
    grants = [_mig(1, 60, 40_448), make_grant(gpu_uuid="GPU-404", allocation="a5")]
    said = show(80, CARDS[2], instances=overlapping, grants=grants)
    assert "residual not known\n" in said
    assert "  not known: cannot place MIG instance 'MIG-2' (1g.10gb at 3:1): it overlaps\n" in said
    assert "compute" not in said
    assert "  MIG 1  3g.40gb  slices 0-3  60 SMs  40,448 MiB  granted a1 (acme/p)\n" in said
    assert "not known: granted on a card that no inventory covers\n" in said
    assert "  1,000 units  24,576 MiB  granted a5 (acme/p)  GPU-404\n" in said


def test_a_grant_on_an_instance_that_is_not_there_is_shown_under_its_card(show: Show) -> None:
    said = show(100, CARDS[2], grants=[_mig(404, 16, 9_984)])
    assert "  no such instance: MIG-404  16 SMs  9,984 MiB  granted a404 (acme/p)\n" in said
    assert "residual -16\n" in said


def test_a_node_without_cards_in_that_second_says_so(show: Show) -> None:
    assert "no card of the node is on record in that second\n" in show(80)


def test_a_terminal_without_blocks_gets_letters(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1", write_through=True))
    show(80, *CARDS, **_busy())
    said = written.getvalue().decode("ascii")
    assert "  compute  ##########################+++++++..............%%%%%%%%%%% 132 SMs\n" in said


def test_markup_in_a_name_is_a_name(show: Show) -> None:
    """An import names allocations as it likes."""
    grant = make_grant(gpu_uuid=f"{UUID}0", allocation="[bold]a1[/bold]", vram_bytes=23 * GIB)
    assert "granted [bold]a1[/bold] (acme/p)\n" in show(80, CARDS[0], grants=[grant])


@given(
    amounts=st.lists(st.integers(0, 10**12), min_size=7, max_size=7),
    beyond=st.integers(0, 10**12),
    width=st.integers(8, 96),
)
@settings(max_examples=settings().max_examples * 2, deadline=None)
def test_the_blocks_fill_the_line_and_leave_out_no_state(amounts: list[int], beyond: int, width: int) -> None:
    """Each within a block of its share, but for those that are too small to see, which get one."""
    said = dict(zip(STATES, amounts, strict=True))
    beyond = min(beyond, said["granted"] + said["held"])
    whole = sum(amounts)
    if not whole:
        return
    found = blocks(Balance(whole - beyond, **said), width)
    assert sum(found.values()) == width
    from_held = min(beyond, said["held"])
    shown = said | {"held": said["held"] - from_held, "granted": said["granted"] - beyond + from_held, "beyond": beyond}
    assert set(found) == {state for state, amount in shown.items() if amount}
    assert min(found.values()) >= 1
    for state, count in found.items():
        assert count <= shown[state] * width // whole + 1
        assert count >= shown[state] * width // whole - len(found)
