"""import(export(x)) is a fixed point: for any records, with cards that are known, half known and unknown."""

import io
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from allocator.inventory_store import take_inventory
from allocator.records.csv_rows import Problems, read_rows, write_rows
from allocator.records.store import ImportOutcome, export_rows, import_records
from domain.allocation_csv import COLUMNS
from domain.errors import InputError
from domain.inventory import Inventory
from domain.skus import load_skus
from store.access import Principal, Role
from store.database import Database
from store.tables.capacity import allocations, grants
from tests.databases import Databases

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Template

OPERATOR = Principal.local_operator()
SKUS = load_skus()
INSTANTS = ["0", "0.000001", "1699999999.5", "2026-11-01T00:00:00+08:00", "2030-01-01T00:00:00Z", "4102444800"]


def whole_or_share(draw: st.DrawFn) -> dict[str, str]:
    if draw(st.booleans()):
        return {"kind": "whole", "milli_gpu": draw(st.sampled_from(["", "1000"]))}
    return {"kind": "share", "milli_gpu": str(draw(st.integers(1, 999)))}


@st.composite
def cells(draw: st.DrawFn) -> dict[str, str]:
    """A row that is sound by itself."""
    start, end = sorted(draw(st.lists(st.sampled_from(INSTANTS), min_size=2, max_size=2)), key=INSTANTS.index)
    row = {
        "allocation": draw(st.sampled_from(["a", "b/1", "c:2"])),
        "tenant": "acme",
        "project": "lab",
        "start": start,
        "end": draw(st.sampled_from([end, ""])),
        "vram_mib": draw(st.sampled_from(["0", "0.5", "1024", "8191.00000095367431640625"])),
    }
    where = draw(st.sampled_from(["record", "unknown card", "known card", "mig", "known mig", "mystery"]))
    number = draw(st.integers(0, 2))
    if where == "record":
        return {**row, **whole_or_share(draw), "model": draw(st.sampled_from(["NVIDIA L4", 'Odd, "Card"']))}
    if where == "unknown card":
        return {**row, **whole_or_share(draw), "node": "n5", "gpu_uuid": f"GPU-u{number}", "model": "NVIDIA L4"}
    if where == "known card":
        vram = {"vram_mib": draw(st.sampled_from(["", "1"]))}
        return {**row, **whole_or_share(draw), "node": "n1", "gpu_uuid": f"GPU-{number}", **vram}
    mig = {"kind": "mig", "node": "n1", "mig_profile": "1g.10gb", "vram_mib": draw(st.sampled_from(["", "512"]))}
    if where == "known mig":
        instance = {"mig_uuid": f"MIG-GPU-9-{number}", "vram_mib": draw(st.sampled_from(["", "9984"]))}
        return {**row, **mig, "gpu_uuid": "GPU-9", **draw(st.sampled_from([{}, instance]))}
    if where == "mig":
        slices = {"mig_start": draw(st.sampled_from(["", "3"]))}
        return {**row, **mig, **slices, "node": "n6", "gpu_uuid": f"GPU-m{number}", "model": "NVIDIA A100-SXM4-80GB"}
    odd = {
        "gpu_uuid": f"GPU-o{number}",
        "node": "n7",
        "model": "Mystery",
        "milli_gpu": str(draw(st.integers(1, 1_000))),
    }
    return {**row, **mig, **odd, "mig_profile": "1g.1gb", "vram_mib": "7"}


def load(database: Database, text: str) -> ImportOutcome:
    problems = Problems()
    rows = read_rows(io.StringIO(text), problems)
    return import_records(database, OPERATOR, rows, problems, source="csv", skus=SKUS)


def export(database: Database) -> str:
    text = io.StringIO()
    with database.read() as connection:
        write_rows(text, export_rows(connection, OPERATOR))
    return text.getvalue()


def state(database: Database) -> list[list[tuple[object, ...]]]:
    with database.read() as connection:
        tables = (allocations, grants)
        return [[tuple(row) for row in connection.execute(select(each).order_by(*each.primary_key))] for each in tables]


@pytest.fixture(scope="module")
def furnished(databases: Databases, template: "Template", hardware: "Hardware") -> Iterator[str]:
    """A database in which n1 has had three RTX 4090 and an H100 in MIG mode since second 0."""
    cards = (*(hardware.rtx4090(f"GPU-{n}", n) for n in range(3)), hardware.h100_mig("GPU-9", 9, 0, 1, 2))
    with databases.copy(template.url) as url:
        with closing(Database(url)) as database, database.write() as connection:
            node = Principal("n1", Role.NODE, node="n1")
            take_inventory(connection, node, "n1", Inventory(0, cards), skus=SKUS, share_grain=None)
        yield url


@settings(
    max_examples=settings().max_examples * 60 // 100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
@given(rows=st.lists(cells(), min_size=1, max_size=5))
def test_what_is_exported_imports_as_the_same(databases: Databases, furnished: str, rows: list[dict[str, str]]) -> None:
    """In the same database, where nothing changes, and in another one, in whatever order of the lines."""
    text = io.StringIO()
    write_rows(text, [[row.get(name, "") for name in COLUMNS] for row in rows])
    with ExitStack() as stack:
        copies = (stack.enter_context(databases.copy(furnished)) for _ in range(2))
        first, second = [stack.enter_context(closing(Database(url))) for url in copies]
        try:
            outcome = load(first, text.getvalue())
        except InputError as error:
            assume(not any(said in str(error) for said in ("is granted", "are granted", "has several shares")))
            raise
        before, exported = state(first), export(first)
        assert outcome.grants == len(rows) == len(before[1])
        assert load(first, exported).unchanged == outcome.added
        assert (state(first), export(first)) == (before, exported)
        header, *lines = exported.splitlines(keepends=True)
        load(second, header + "".join(reversed(lines)))
        assert export(second) == exported
