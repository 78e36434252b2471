"""Building blocks of panel queries: selectors, the names of cards, and which cards are to be there.

PromQL, but for `tlast_over_time` of MetricsQL. `$node`, `$tenant`, `$__interval` and `$__range` are Grafana's.
"""

from domain.series import GPU_BUSY, GPU_INFO, GPU_MEMORY_USED, GPU_UP, GRANT_INFO, MIG_INFO, Series

NODE = 'node=~"$node"'
CARD = f'{NODE},mig_uuid=""'
TENANT = 'tenant=~"$tenant"'
# A grant without a card is on record only.
ON_A_CARD = 'gpu_uuid!=""'

# Longer than a node is silent before it counts as unreachable (10 s), with a second or two of delivery: what was said
# in this time is what is known of now.
NOW = "15s"
# The meter publishes every 5 s, but a pass may take longer.
METER_NOW = "1m"
# A card that described itself in this time is expected to answer.
EXPECTED_FOR = "1d"

DEVICE = "node, gpu_uuid, mig_uuid"


def of(series: Series, matchers: str = "") -> str:
    """A selector."""
    return f"{series.name}{{{matchers}}}" if matchers else series.name


def last(series: Series, matchers: str = "", window: str = NOW) -> str:
    """The last value in a window that ends with the step: unlike a bare selector it never reaches further back."""
    return f"last_over_time({of(series, matchers)}[{window}])"


def up(window: str = NOW, *, matchers: str = CARD, over_time: str = "last_over_time") -> str:
    """1 for each card that answered in the window, 0 for each that its driver calls lost.

    One that tells readings, and not whether it is up, answered: an imported log has no `gpu_up`.
    """
    told = " or on (node, gpu_uuid) ".join(last(series, matchers, window) for series in (GPU_MEMORY_USED, GPU_BUSY))
    return f"({over_time}({of(GPU_UP, matchers)}[{window}]) or on (node, gpu_uuid) ({told}) * 0 + 1)"


def cards() -> str:
    """1 for each card that described itself in the day before the range ends, by node, gpu_uuid and `card`.

    `card` is node/index, as in `rack-1/03`, so that names sort. A card whose index or driver changed in that day is
    described twice: the later counts, or the query would fail on two names for one card. An index is of the card that
    had it last: one that had it before, or has none, is called node/UUID, or two cards would be drawn as one.
    """
    with_index = f'{NODE},index!=""'
    described = f"tlast_over_time({of(GPU_INFO, with_index)}[{EXPECTED_FOR}] @ end())"
    latest = f"topk by (node, index) (1, topk by (node, gpu_uuid) (1, {described}))"
    all_described = f"group by (node, gpu_uuid) (last_over_time({of(GPU_INFO, NODE)}[{EXPECTED_FOR}] @ end()))"
    by_index = _joined(_two_digits(latest, "index"), "/", "node", "index")
    by_uuid = _joined(all_described, "/", "node", "gpu_uuid")
    return f"group by (node, gpu_uuid, card) ({by_index} or on (node, gpu_uuid) {by_uuid})"


def devices() -> str:
    """`cards`, and 1 for each of their MIG instances, by mig_uuid also: `rack-1/03/gi07`, the last that was gi07."""
    described = f"tlast_over_time({of(MIG_INFO, NODE)}[{EXPECTED_FOR}] @ end())"
    latest = f"topk by (node, gpu_uuid, gi_id) (1, topk by ({DEVICE}) (1, {described}))"
    on_card = f"{_two_digits(latest, 'gi_id')} * on (node, gpu_uuid) group_left (card) {cards()}"
    return f"({cards()} or group by ({DEVICE}, card) ({_joined(on_card, '/gi', 'card', 'gi_id')}))"


def with_name(value: str, names: str, seen: str) -> str:
    """The series of `value` with the label `card`, from `cards()` or `devices()`.

    One that these do not name, as of an imported log, is called node/UUID, with the instance's own UUID after it;
    `seen` has all that may be in `value`.
    """
    uuids = _joined(f"group by ({DEVICE}) ({seen})", "/", "node", "gpu_uuid", "mig_uuid")
    without_end = f'label_replace({uuids}, "card", "$1", "card", "(.+)/")'
    return f"({value}) * on ({DEVICE}) group_left (card) ({names} or on ({DEVICE}) {without_end})"


def granted_cards(window: str = NOW) -> str:
    """1 for each card on which somebody holds a grant, by gpu_uuid."""
    return f"group by (gpu_uuid) ({last(GRANT_INFO, ON_A_CARD, window)} == 1)"


def expected(window: str = NOW) -> str:
    """1 for each card that is to answer at a moment: it described itself in the day before, or is granted.

    One that was moved is expected on the node where it described itself last. Of one that is granted and neither
    described nor answering the node is not known, so that no choice of nodes leaves it out.
    """
    described = f"tlast_over_time({of(GPU_INFO)}[{EXPECTED_FOR}])"
    here = f"{cards()} and on (node, gpu_uuid) topk by (gpu_uuid) (1, {described})"
    unknown = (
        f"{granted_cards(window)} unless on (gpu_uuid) last_over_time({of(GPU_INFO)}[{EXPECTED_FOR}] @ end()) "
        f"unless on (gpu_uuid) {up(window, matchers='')}"
    )
    return f'({here} or label_replace({unknown}, "card", "unknown node/$1", "gpu_uuid", "(.+)"))'


def _joined(vector: str, separator: str, *labels: str) -> str:
    quoted = ", ".join(f'"{label}"' for label in labels)
    return f'label_join({vector}, "card", "{separator}", {quoted})'


def _two_digits(vector: str, label: str) -> str:
    return f'label_replace({vector}, "{label}", "0$1", "{label}", "([0-9])")'
