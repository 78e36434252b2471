"""The panels on cards: which are there, how busy and how full they are, and who is on the fullest."""

from dashboards.panel_kinds import Column, RatioHeatmap, Stat, StateTimeline, Table, ThresholdLines
from dashboards.panels import Field, Query, Step
from dashboards.queries import (
    CARD,
    DEVICE,
    NODE,
    NOW,
    ON_A_CARD,
    cards,
    devices,
    expected,
    last,
    of,
    up,
    with_name,
)
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_SM_ACTIVE, GPU_UP, GRANT_INFO, MIG_INFO
from domain.watermarks import WATERMARKS, usable_bytes, used_ratio

_NO_CARDS = "no card known"
_NO_SAMPLES = "No samples in this time. Is a collector running on the chosen nodes?"
_FAULT = (Step(None, "text"), Step(1, "red"))
_LEVEL_COLORS = ("yellow", "orange", "red")
_SLOT = "gpu_uuid, mig_uuid"

WATERMARK_STEPS = (
    Step(None, "green"),
    *(Step(mark.used_ratio, color) for mark, color in zip(WATERMARKS, _LEVEL_COLORS, strict=True)),
)


def reporting(number: int, at: tuple[int, int, int, int]) -> Stat:
    """How many cards say that they are well, of how many."""
    well = f"sum({up()} == bool 1) or count({expected()}) * 0"
    known = f"count(group by (gpu_uuid) ({expected()} or {up()}))"
    return Stat(
        number,
        "Cards reporting / expected",
        f"Reporting: answered in the last {NOW} and are not lost. Expected: described themselves in the last day, or "
        "are granted. If the first is lower, look at Card states for which ones are missing.",
        at,
        [Query(well, legend="reporting", instant=True), Query(known, legend="expected", instant=True)],
        Field(_NO_CARDS),
    )


def lost(number: int, at: tuple[int, int, int, int]) -> Stat:
    """How many cards their driver calls lost."""
    return Stat(
        number,
        "Cards lost",
        "Their driver says that they have fallen off the bus. What to do: move the tenant, then reset the card or "
        "reboot the node.",
        at,
        [Query(f"sum({up()} == bool 0)", instant=True)],
        Field("no card reports", steps=_FAULT),
    )


def silent(number: int, at: tuple[int, int, int, int]) -> Stat:
    """How many expected cards nothing was heard of."""
    unheard = f"count({expected()} unless on (gpu_uuid) {up()}) or count({expected()}) * 0"
    return Stat(
        number,
        "Cards not sampled",
        f"Expected, but without a sample in the last {NOW}: the node, its network or its collector is down, or the "
        "driver hangs. This is not idle and not lost: their state is not known.",
        at,
        [Query(unheard, instant=True)],
        Field(_NO_CARDS, steps=_FAULT),
    )


def mean_activity(number: int, at: tuple[int, int, int, int]) -> Stat:
    """How busy the cards are that say so."""
    sm, busy = of(GPU_SM_ACTIVE, CARD), of(GPU_BUSY, CARD)
    mean = f"avg(avg_over_time({sm}[1m]) or (avg_over_time({busy}[1m]) unless last_over_time({sm}[1h])))"
    return Stat(
        number,
        "Mean activity",
        "Mean over the last minute and the cards that told it: SM active, or busy (some kernel ran) where a card does "
        "not tell SM active. Cards that told neither are left out, not taken for idle.",
        at,
        [Query(mean, instant=True)],
        Field("not told", unit="percentunit", decimals=0),
    )


def vram_used(number: int, at: tuple[int, int, int, int]) -> Stat:
    """Used VRAM of the fleet."""
    used, usable = last(GPU_MEMORY_USED, CARD), usable_bytes(CARD, NOW)
    # A card that tells one of the two has a part in neither sum.
    ratio = f"sum({used} and on ({DEVICE}) {usable}) / sum({usable} and on ({DEVICE}) {used})"
    return Stat(
        number,
        "VRAM used",
        "Used VRAM of all cards that report, of what their drivers leave to tenants. One full card among empty ones "
        "does not show here: see the watermarks below.",
        at,
        [Query(ratio, instant=True)],
        Field("not told", unit="percentunit", decimals=0),
    )


def activity(number: int, at: tuple[int, int, int, int]) -> RatioHeatmap:
    """One row a card: SM active where the card has it, else busy, and the row's name says so."""
    sm, busy = of(GPU_SM_ACTIVE, CARD), of(GPU_BUSY, CARD)
    has_sm, has_busy = f"last_over_time({sm}[$__range] @ end())", f"last_over_time({busy}[$__range] @ end())"
    # The two are different quantities: where SM active has a hole, busy must not fill it.
    value = (
        f"avg_over_time({sm}[$__interval]) or (avg_over_time({busy}[$__interval]) unless on (node, gpu_uuid) {has_sm})"
    )
    # A card without a value is at -1, which is not drawn, and so keeps its row.
    rows = f"({with_name(value, cards(), f'{has_sm} or {has_busy}')} or {cards()} * -1)"
    busy_only = f'label_replace(({has_busy} unless {has_sm}) * 0 + 1, "told", " busy", "", "")'
    told = f"({busy_only} or on (node, gpu_uuid) ({cards()} or on (node, gpu_uuid) {has_sm}) * 0 + 1)"
    marked = f'label_join({rows} * on (node, gpu_uuid) group_left (told) {told}, "card", "", "card", "told")'
    return RatioHeatmap(
        number,
        "Activity by card: SM active, or busy where the row says so",
        "Each cell is the mean over one step. SM active is the share of its SMs that had work; a row marked busy is of "
        "a card that does not tell it, and shows for how long some kernel ran, however small. 0 has a colour. A cell "
        "without colour is no 0: the card was lost, was not sampled, or does not tell; Card states says which. With "
        "hundreds of cards choose some nodes above.",
        at,
        [Query(f'sort_by_label(max by (card) ({marked}), "card")', legend="{{card}}")],
        Field(_NO_SAMPLES, unit="percentunit", least=0, most=1),
    )


def watermarks(number: int, at: tuple[int, int, int, int]) -> ThresholdLines:
    """The fullest moment of each step of the cards and MIG instances that were fullest in the range."""
    # Never the mean: a card that was full for a second has failed an allocation, at every zoom.
    ratio = f"{used_ratio(NODE, '$__interval')} and on ({DEVICE}) {_fullest(10, '$__range', '@ end()')}"
    seen = f"last_over_time({of(GPU_MEMORY_USED, NODE)}[$__range] @ end())"
    levels = ", ".join(f"{mark.level} {mark.used_ratio:.0%}" for mark in WATERMARKS)
    return ThresholdLines(
        number,
        "VRAM watermarks: the ten fullest cards and MIG instances",
        "Used of usable VRAM, the fullest moment of each step, so that a short peak shows at every zoom. The lines are "
        f"the levels at which on-call is told: {levels}. Above one: the table says whose work it is, and the page has "
        "a runbook.",
        at,
        [Query(with_name(ratio, devices(), seen), legend="{{card}}")],
        Field(
            _NO_SAMPLES,
            unit="percentunit",
            decimals=1,
            least=0,
            most=1,
            steps=WATERMARK_STEPS,
            color_mode="palette-classic",
        ),
    )


def fullest_cards(number: int, at: tuple[int, int, int, int], uid: str) -> Table:
    """The fullest cards and MIG instances with who holds them, a row for each tenant."""
    used = last(GPU_MEMORY_USED, NODE)
    # A card in MIG mode is held by its instances, which have rows of their own.
    split = f"group by (node, gpu_uuid) ({last(MIG_INFO, NODE, '5m')})"
    named = with_name(_fullest(20, NOW, but_not=split), devices(), used)
    held = f"group by ({_SLOT}, tenant) ({last(GRANT_INFO, ON_A_CARD)} == 1)"
    free = f'label_replace(group by ({_SLOT}) ({used}), "tenant", "not granted", "", "")'
    rows = f"({held} or on ({_SLOT}) {free}) * on ({_SLOT}) group_left (node, card) ({named})"
    bytes_of = f"{rows} * 0 + on ({_SLOT}) group_left ()"
    size = Field("", unit="bytes", decimals=1)
    ratio = Field("", unit="percentunit", decimals=1, least=0, most=1, steps=WATERMARK_STEPS)
    return Table(
        number,
        "Fullest cards and MIG instances",
        "Who is on the twenty cards and MIG instances that are fullest at the end of the range: a row for each tenant "
        "of a shared card, all with what the whole card uses. A card that was not sampled is not in it.",
        at,
        [rows, f"{bytes_of} {used}", f"{bytes_of} {usable_bytes(NODE, NOW)}"],
        [
            Column(
                "card",
                "Card",
                link=("Only this node", f"/d/{uid}?var-node=${{__data.fields.Node}}&${{__url_time_range}}"),
            ),
            Column("tenant", "Tenant"),
            Column("Value #A", "Used", ratio, is_gauge=True),
            Column("Value #B", "VRAM used", size),
            Column("Value #C", "VRAM usable", size),
            Column("node", "Node"),
            Column("gpu_uuid", "GPU UUID"),
            Column("mig_uuid", "MIG UUID"),
        ],
        _NO_SAMPLES,
    )


def states(number: int, at: tuple[int, int, int, int]) -> StateTimeline:
    """Up, lost, or not sampled: each card at each moment."""
    seen = " or ".join(
        f"last_over_time({of(series, CARD)}[$__range] @ end())" for series in (GPU_UP, GPU_MEMORY_USED, GPU_BUSY)
    )
    told = with_name(up("$__interval", over_time="min_over_time"), cards(), seen)
    return StateTimeline(
        number,
        "Card states",
        "Lost: the driver said so in at least one second of the step. Not sampled: expected, and not one sample in the "
        "step (10 s or more), so that nothing is known of the card; shorter holes are counted under Collectors. No "
        "colour: the card was not known yet, or is not expected any more.",
        at,
        [
            Query(
                f'sort_by_label(min by (card) ({told} or {expected("$__interval")} * 0 + 2), "card")',
                legend="{{card}}",
                min_step="10s",
            )
        ],
        Field(
            "No card is known in this time. Is a collector running on the chosen nodes?",
            mappings={1: ("up", "green"), 0: ("lost", "red"), 2: ("not sampled", "orange")},
        ),
    )


def _fullest(count: int, window: str, modifier: str = "", *, but_not: str = "") -> str:
    """The used ratio of the cards and MIG instances that are fullest at the fullest moment of the window."""
    ratio = used_ratio(NODE, window, modifier)
    kept = f"{ratio} unless on ({DEVICE}) {but_not}" if but_not else ratio
    # Of equally full ones topk takes any, another at each refresh, unless they come in order.
    return f'topk({count}, sort_by_label({kept}, "node", "gpu_uuid", "mig_uuid"))'
