"""What a page says of a card, in the template language of vmalert's annotations.

What is known of a card is asked for when its alert is evaluated, as of its last reading: a card that fell silent is
shown as it was last seen.

vmalert writes every text of every alert anew at each evaluation, one query after the other: with 500 full cards each
query more is 1,500 of them. So `$value` is put to use, which is how full the card is, or 0 of one that is silent.
"""

from domain.series import GPU_INFO, GPU_MEMORY_USED, GRANT_INFO, MIG_INFO, Series
from domain.watermarks import usable_bytes, used_ratio

# A reading counts as fresh for this long; a query sees it up to 4 s after its second.
FRESH = "10s"
# A card that is silent for longer is given up: it may have been taken away.
REMEMBERED = "24h"
# What a card is is said once a minute; of what was said last the latest counts.
_DESCRIBED = "1h"
# The allocator says every 5 s who holds what.
GRANTED = "1m"
_LAST_READING = f"tlast_over_time({GPU_MEMORY_USED.name}{{%s}}[{REMEMBERED}])"
_NAME = '{{ $labels.node }}/{{ with $info }}{{ . | first | label "index" }}{{ else }}{{ $labels.gpu_uuid }}{{ end }}'
# An alert goes on while nothing is heard of what it is about; then its value is 0.
_UNHEARD_LINE = "{{ if not $value }}heard: nothing now, so this is as it was last told\n{{ end -}}\n"
_CARD_AND_TENANT_LINES = (
    f'card: {_NAME}{{{{ with $info }}}}, {{{{ . | first | label "model" }}}}{{{{ end }}}}'
    ", {{ $labels.gpu_uuid }}{{ if $labels.mig_uuid }}, MIG "
    '{{ with $profile }}{{ . | first | label "profile" }} {{ end }}{{ $labels.mig_uuid }}{{ end }}\n'
    "tenant: {{ range $number, $tenant := $tenants }}{{ if $number }}, {{ end }}"
    '{{ $tenant | label "tenant" }}{{ else }}no grant known{{ end }}\n'
)
_SINCE_LINE = (
    'since: {{ with $since }}{{ (. | first | value | toTime).UTC.Format "2006-01-02 15:04:05" }} UTC'
    "{{ else }}just now{{ end }}\n"
)


def card_summary(before: str, after: str) -> str:
    """One line with the card's `node/index` in it, as people say it; its UUID where nothing is known of the index."""
    return f"{_card()}{before}{_NAME}{after}"


def card_description(since: str) -> str:
    """Lines of `name: value`: the card, who is on it, how much of it is used, since when.

    A card's line names its MIG instance where the alert is of one. Tenants are all those with an open grant there.
    `since` is what `above_since` or `silent_since` writes.
    """
    then = "%[2]s"
    used = f"max_over_time({GPU_MEMORY_USED.name}{{%[1]s}}[{FRESH}] {then})"
    return (
        f"{_card()}{_profile_and_tenants()}"
        f"{_let('used', used, '$device $then')}"
        f"{_let('usable', usable_bytes('%[1]s', FRESH, then), '$device $then')}"
        '{{ $ratio := "" }}{{ if not $value }}'
        f"{{{{ $ratio = {_query(used_ratio('%[1]s', FRESH, then), '$device $then')} }}}}{{{{ end -}}}}\n"
        f"{since}{_CARD_AND_TENANT_LINES}"
        f"used: {_first('$used', 'humanize1024')}B of {_first('$usable', 'humanize1024')}B"
        " ({{ if $value }}{{ $value | humanizePercentage }}"
        f"{{{{ else }}}}{_first('$ratio', 'humanizePercentage')}{{{{ end }}}})\n"
        f"{_SINCE_LINE}"
    )


def condition_description(alert: str, more: str) -> str:
    """Lines of `name: value` of a card that is not well: the card, who is on it, `more` lines, since when.

    Where nothing is heard of it, which is where `$value` is 0, one of the lines says so.
    """
    return (
        f"{_card()}{_profile_and_tenants()}{above_since(alert)}"
        f"{_CARD_AND_TENANT_LINES}{more}{_UNHEARD_LINE}{_SINCE_LINE}"
    )


def node_description(alert: str, more: str) -> str:
    """Lines as of `condition_description` of a node that is not well."""
    node = '{{ $node := printf "node=%q" $labels.node -}}\n'
    return f"{node}{above_since(alert, '$node')}node: {{{{ $labels.node }}}}\n{more}{_UNHEARD_LINE}{_SINCE_LINE}"


def line(name: str, query: str, subject: str, item: str) -> str:
    """A line of what a query finds, `item` being what is said of each: a filter of the template language, or several.

    %s in the query selects the `subject`: `$card`, `$device` (its MIG instance, where the alert is of one) or `$node`.
    """
    found = _query(query, subject)
    each = f"{{{{ if $number }}}}, {{{{ end }}}}{{{{ $each | {item} }}}}"
    return f"{name}: {{{{ range $number, $each := {found} }}}}{each}{{{{ else }}}}?{{{{ end }}}}\n"


def above_since(alert: str, subject: str = "$device") -> str:
    """What finds the epoch second at which a card of the alert crossed the mark, or from which on it was so."""
    # vmalert 1.112 has the present for its own `$activeAt`.
    return _let("since", f"min(ALERTS_FOR_STATE{{alertname='{alert}',%s}})", subject)


def silent_since() -> str:
    """What finds the epoch second of the last reading of a card that is silent."""
    return "{{ $since := $seen -}}\n"


def _card() -> str:
    """Sets what every text needs: the labels of the card, of its device, and what is known of it.

    Of one that is silent, also when it was last seen, and `$then`, which says so in a query.
    """
    return (
        '{{ $card := printf "node=%q,gpu_uuid=%q" $labels.node $labels.gpu_uuid -}}\n'
        # A label that is not there reads as empty, and so selects the card itself.
        '{{ $device := printf "%s,mig_uuid=%q" $card (or $labels.mig_uuid "") -}}\n'
        '{{ $seen := "" }}{{ $then := "" }}{{ if not $value }}'
        f"{{{{ $seen = {_query(_LAST_READING, '$device')} }}}}"
        '{{ with $seen }}{{ $then = . | first | value | printf "@ %.0f" }}{{ end }}{{ end -}}\n'
        f"{_let('info', _described(GPU_INFO), '$card $then')}"
    )


def _profile_and_tenants() -> str:
    """Sets the profile of its MIG instance, and who has a grant: of a card that is cut, everyone who holds one."""
    granted = f"last_over_time({GRANT_INFO.name}{{gpu_uuid=%q,mig_uuid=~%q}}[{GRANTED}]) == 1"
    return (
        '{{ $profile := "" }}{{ if $labels.mig_uuid }}'
        f"{{{{ $profile = {_query(_described(MIG_INFO), '$device $then')} }}}}{{{{ end -}}}}\n"
        f"{_let('tenants', f'count by (tenant) ({granted})', '$labels.gpu_uuid (or $labels.mig_uuid `.*`)')}"
    )


def _described(info: Series) -> str:
    """The query for what was last said of a device, the first %s, until then, the other %s; the latest first."""
    return f"sort_desc(tlast_over_time({info.name}{{%s}}[{_DESCRIBED}] %s))"


def _let(name: str, query: str, arguments: str) -> str:
    return f"{{{{ ${name} := {_query(query, arguments)} -}}}}\n"


def _query(query: str, arguments: str) -> str:
    return f'query (printf "{query}" {arguments})'


def _first(answer: str, form: str) -> str:
    return f"{{{{ with {answer} }}}}{{{{ . | first | value | {form} }}}}{{{{ else }}}}? {{{{ end }}}}"
