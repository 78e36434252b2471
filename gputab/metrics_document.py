"""`docs/metrics.md`, made of the catalogue of series and of what each family of cards can tell.

`python -m gputab.metrics_document` writes it, as `make docs` does.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from collector.capabilities import CAPABILITIES, Family
from collector.dcgm.fields import FIELDS
from collector.own_metrics import RARE_SECONDS
from domain.series import (
    ALLOCATOR_REQUESTS,
    CATALOGUE,
    COLLECTOR_CALL_FAILURES,
    COLLECTOR_CALL_LONGEST,
    COLLECTOR_CALL_SECONDS,
    COLLECTOR_CALLS,
    COLLECTOR_COMPLETE_UNTIL,
    DEVICE,
    GPU_BASIS_INFO,
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
    GPU_FIELD_STATE,
    GPU_INFO,
    GPU_LAST_XID,
    GPU_MEMORY_TOTAL,
    GPU_PCIE_RECEIVED,
    GPU_POWER,
    GPU_RECOVERY_ACTION,
    GPU_REMAPPED_ROWS,
    GPU_ROW_REMAP_FAILED,
    GPU_ROW_REMAP_PENDING,
    GPU_TOPOLOGY_LINK,
    GPU_UP,
    GPU_VGPU_BUSY,
    GRANT,
    GRANT_INFO,
    METER_LAG,
    MIG_INFO,
    OWNER_MEMORY,
    Series,
)

FILE = Path(__file__).parent.parent / "docs" / "metrics.md"

# The series with which a group begins; the catalogue's order does the rest.
_GROUPS = {
    GPU_UP: "What a card does",
    GPU_MEMORY_TOTAL: "Memory",
    GPU_POWER: "Power, temperature, clocks",
    GPU_PCIE_RECEIVED: "Links",
    GPU_VGPU_BUSY: "Virtual GPUs",
    GPU_INFO: "Facts",
    OWNER_MEMORY: "Owners",
    GPU_LAST_XID: "Health, and why something is missing",
    COLLECTOR_COMPLETE_UNTIL: "The collector itself",
    GRANT_INFO: "Grants",
    ALLOCATOR_REQUESTS: "The allocator itself",
    METER_LAG: "The meter itself",
}

_HEAD = f"""# Series

Every series that gputab writes, made by `make docs` from `domain/series/` and `collector/capabilities.py`.

Units are base units and ratios run from 0 to 1. A sample stamped s stands for the second [s, s+1). What a card cannot
tell has no sample, never a 0: `{GPU_FIELD_STATE.name}` says why.

*device* stands for the labels `node`, `gpu_uuid` and, on a MIG instance, `mig_uuid`; what else is known of a card is
on `{GPU_INFO.name}`, by UUID. *grant* stands for `gpu_uuid`, `mig_uuid`, `allocation`, `tenant`, `project` and `kind`.

Cards are read by NVML, the library of the driver, or by DCGM; a number is that of a field (`NVML_FI_DEV_*`) or of a
performance metric (GPM) in `nvml.h`. Both say the same under the same name, or the name is another.
"""

_MATRIX_HEAD = """## Which card tells what

*some*: it depends on the card or its driver, which the collector asks; `gputab doctor` says it of the cards at hand.
*by DCGM*: by way of DCGM only. *MIG of* a card is an instance on it.
"""

_OFTEN_HEAD = """## How often a collector tells a series

In each second that is sampled and in which there is a value, on the stamp of that second; but:
"""

# What is told otherwise, and when.
SELDOM = {
    (GPU_INFO, MIG_INFO): "where the inventory changes, and every minute",
    (GPU_FIELD_STATE, GPU_BASIS_INFO): "where it changes, and every minute while it holds",
    (
        GPU_ECC_CORRECTED,
        GPU_ECC_UNCORRECTED,
        GPU_REMAPPED_ROWS,
        GPU_ROW_REMAP_PENDING,
        GPU_ROW_REMAP_FAILED,
        GPU_RECOVERY_ACTION,
    ): "by NVML in the second in which it is asked for, once a minute",
    (
        GPU_TOPOLOGY_LINK,
        COLLECTOR_CALLS,
        COLLECTOR_CALL_SECONDS,
        COLLECTOR_CALL_LONGEST,
        COLLECTOR_CALL_FAILURES,
    ): f"every {RARE_SECONDS} s",
    (COLLECTOR_COMPLETE_UNTIL,): "where it has moved, which is seen every 5 s, when the store is asked how it is",
}

_OWN_PAGE = f"""
A collector shows these at `/metrics` of `metrics_port` ([settings.md](settings.md)), too, with
`{GPU_TOPOLOGY_LINK.name}` and without `{COLLECTOR_COMPLETE_UNTIL.name}`, which is pushed only.
"""


def text() -> str:
    """The document."""
    parts = [_HEAD]
    for title, group in _grouped(CATALOGUE.values()):
        is_of_cards = all(series in CAPABILITIES for series in group)
        parts.append(f"## {title}\n\n" + (_card_table(group) if is_of_cards else _table(group)))
        if COLLECTOR_COMPLETE_UNTIL in group:
            parts[-1] += _OWN_PAGE
    parts.append(_OFTEN_HEAD + "\n" + _seldom())
    parts.append(_MATRIX_HEAD + "\n" + _matrix())
    return "\n".join(parts)


def write(file: Path = FILE) -> bool:
    """Bring the file to the catalogue, at once and whole; whether it differed."""
    now = text()
    if file.is_file() and file.read_text("utf-8") == now:
        return False
    whole = file.with_suffix(".new")
    whole.write_text(now, "utf-8")
    whole.replace(file)
    return True


def _grouped(catalogue: Iterable[Series]) -> Iterator[tuple[str, list[Series]]]:
    title, group = "", list[Series]()
    for series in catalogue:
        if series in _GROUPS:
            if group:
                yield title, group
            title, group = _GROUPS[series], []
        group.append(series)
    yield title, group


def _card_table(group: Iterable[Series]) -> str:
    rows = [
        (
            f"`{series.name}`",
            series.unit,
            series.kind,
            _labels(series),
            series.help,
            CAPABILITIES[series].nvml,
            ", ".join(_dcgm_names(series)) or CAPABILITIES[series].dcgm,
        )
        for series in group
    ]
    return _markdown(("series", "unit", "type", "labels", "meaning", "by NVML", "by DCGM"), rows)


def _table(group: Iterable[Series]) -> str:
    rows = [(f"`{series.name}`", series.unit, series.kind, _labels(series), series.help) for series in group]
    return _markdown(("series", "unit", "type", "labels", "meaning"), rows)


def _seldom() -> str:
    rows = [(", ".join(f"`{series.name}`" for series in group), when) for group, when in SELDOM.items()]
    return _markdown(("series", "when"), rows)


def _matrix() -> str:
    rows = [
        (f"`{series.name}`", *capability.told, capability.note)
        for series in CATALOGUE.values()
        if (capability := CAPABILITIES.get(series)) is not None
    ]
    return _markdown(("series", *Family, "limits"), rows)


def _labels(series: Series) -> str:
    for shared, name in ((GRANT, "*grant*"), (DEVICE, "*device*")):
        if set(series.labels) >= set(shared):
            return ", ".join([name, *(f"`{label}`" for label in series.labels if label not in shared)])
    return ", ".join(f"`{label}`" for label in series.labels)


def _dcgm_names(series: Series) -> Iterator[str]:
    """The names that dcgm-exporter has given it since DCGM 2, oldest first."""
    for field in FIELDS:
        if field.series is series:
            yield from (f"`{name}`" for name in field.names if name.startswith("DCGM_FI_"))


def _markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    if write():
        sys.stdout.write(f"{FILE}\n")
