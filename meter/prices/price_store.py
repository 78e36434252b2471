"""Price books in the database: append-only once loaded, except that an open rate may be given an end."""

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, func, insert, or_, select, update

from domain.errors import ConflictError, NotFoundError
from domain.money import Quote
from domain.period import HOUR_US, format_instant
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis, check_overlaps
from store.access import Principal, Role, record
from store.database import serialize
from store.tables.access import projects, tenants
from store.tables.billing import charges, price_books, rates
from store.tables.closing import adjustments, corrections


def load_book(connection: Connection, principal: Principal, book: PriceBook, *, now_us: int) -> tuple[int, int]:
    """Add the book, or what is new in it; returns how many rates were added and how many were ended.

    ConflictError where the book's currency or gap rules differ from those loaded, where a new rate contradicts
    one in force, or where an end would take back what charges already stand on. Loading it again changes nothing.
    """
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"price book {book.book}")
    header = connection.execute(select(price_books).where(price_books.c.book == book.book)).mappings().one_or_none()
    _check_tenants(connection, book)
    if header is None:
        connection.execute(insert(price_books).values(**_header(book)))
    elif dict(header) != _header(book):
        changed = {key: (header[key], value) for key, value in _header(book).items() if header[key] != value}
        said = ", ".join(f"{key} from {before!r} to {after!r}" for key, (before, after) in changed.items())
        raise ConflictError(f"cannot change the book {book.book!r}, {said}: load it under another name")
    known = {rate.rate_id: rate for _, rate in _read_rates(connection, [book.book])}
    added = [rate for rate in book.rates if rate.rate_id not in known]
    ended = [rate for rate in book.rates if rate.rate_id in known and rate.end_us != known[rate.rate_id].end_us]
    for rate in ended:
        _end_rate(connection, known[rate.rate_id], rate.end_us, now_us)
    check_overlaps([*(rate for _, rate in _read_rates(connection, [book.book])), *added])
    if added:
        connection.execute(insert(rates), [_rate_row(book.book, rate, now_us) for rate in added])
    if header is None or added or ended:
        record(connection, principal, "load prices", f"{book.book} +{len(added)} ended {len(ended)}", now_us)
    return len(added), len(ended)


def load_books(connection: Connection, principal: Principal) -> Mapping[str, PriceBook]:
    """Every book by name; rates of one tenant are shown to billing and operators only."""
    principal.require(Role.OPERATOR, Role.BILLING)
    headers = connection.execute(select(price_books).order_by(price_books.c.book)).all()
    by_book: dict[str, list[Rate]] = {header.book: [] for header in headers}
    for book, rate in _read_rates(connection, list(by_book)):
        by_book[book].append(rate)
    return {header.book: _book(header, by_book[header.book]) for header in headers}


def load_named_book(connection: Connection, principal: Principal, book: str) -> PriceBook:
    """One book; NotFoundError where there is none."""
    books = load_books(connection, principal)
    if book not in books:
        raise NotFoundError(
            f"cannot find the price book {book!r}: loaded are {', '.join(books) or 'none'}; run `gputab prices load`"
        )
    return books[book]


def load_rates(connection: Connection, principal: Principal, rate_ids: Collection[str]) -> Mapping[str, Rate]:
    """Rates by id, of those for everybody and those for the tenants the principal may see."""
    is_seen = or_(rates.c.tenant.is_(None), principal.sees(rates.c.tenant))
    found = connection.execute(select(rates).where(rates.c.rate_id.in_(rate_ids), is_seen))
    return {row.rate_id: _rate(row) for row in found}


def _check_tenants(connection: Connection, book: PriceBook) -> None:
    named = {rate.tenant for rate in book.rates if rate.tenant is not None}
    unknown = sorted(named.difference(connection.execute(select(tenants.c.tenant)).scalars()))
    if unknown:
        raise NotFoundError(
            f"cannot price for the tenant {unknown[0]!r}: there is none of that name; run `gputab tenant create`"
        )
    known = {(row.tenant, row.project) for row in connection.execute(select(projects))}
    priced = {(rate.tenant, rate.project) for rate in book.rates if rate.project is not None}
    for tenant, project in sorted(priced.difference(known), key=str):
        raise NotFoundError(
            f"cannot price for the project {project!r} of {tenant!r}: there is none of that name; run "
            f"`gputab tenant project`"
        )


def _end_rate(connection: Connection, known: Rate, end_us: int | None, now_us: int) -> None:
    charged = select(func.max(charges.c.window_start_us)).where(charges.c.rate_id == known.rate_id)
    adjusted = (
        select(func.max(corrections.c.start_us))
        .join(adjustments, adjustments.c.correction_id == corrections.c.correction_id)
        .where(adjustments.c.rate_id == known.rate_id)
    )
    used = [connection.execute(query).scalar_one() for query in (charged, adjusted)]
    last_used = max((each for each in used if each is not None), default=None)
    if known.end_us is not None:
        raise ConflictError(
            f"cannot move the end of the rate {known.quote.price} per {known.quote.unit} from "
            f"{format_instant(known.end_us)}: an end is for ever; add a rate from then on"
        )
    if last_used is not None and (end_us or 0) < last_used + HOUR_US:
        raise ConflictError(
            f"cannot end the rate {known.quote.price} per {known.quote.unit} before "
            f"{format_instant(last_used + HOUR_US)}: charges up to then stand on it; end it then or later"
        )
    connection.execute(update(rates).where(rates.c.rate_id == known.rate_id).values(end_us=end_us, changed_us=now_us))


def _header(book: PriceBook) -> dict[str, Any]:
    return {
        "book": book.book,
        "currency": book.currency,
        "bridge_seconds": book.gaps.bridge_seconds,
        "host_unreachable": str(book.gaps.host_unreachable),
        "collector_down": str(book.gaps.collector_down),
        "never_ready": str(book.gaps.never_ready),
    }


def _book(header: Row[Any], its_rates: list[Rate]) -> PriceBook:
    gaps = GapRules(
        header.bridge_seconds,
        GapPolicy(header.host_unreachable),
        GapPolicy(header.collector_down),
        GapPolicy(header.never_ready),
    )
    return PriceBook(header.book, header.currency, gaps, tuple(its_rates))


def _rate_row(book: str, rate: Rate, now_us: int) -> dict[str, Any]:
    return {
        "rate_id": rate.rate_id,
        "book": book,
        "dimension": rate.dimension,
        "sku": rate.sku,
        "tenant": rate.tenant,
        "project": rate.project,
        "price": str(rate.quote.price),
        "unit": rate.quote.unit,
        "basis": rate.basis,
        "start_us": rate.start_us,
        "end_us": rate.end_us,
        "changed_us": now_us,
    }


def _read_rates(connection: Connection, books: list[str]) -> list[tuple[str, Rate]]:
    rows = connection.execute(select(rates).where(rates.c.book.in_(books)).order_by(rates.c.start_us, rates.c.rate_id))
    return [(row.book, _rate(row)) for row in rows]


def _rate(row: Row[Any]) -> Rate:
    return Rate(
        rate_id=row.rate_id,
        dimension=row.dimension,
        sku=row.sku,
        tenant=row.tenant,
        project=row.project,
        quote=Quote(Decimal(row.price), row.unit),
        basis=VramBasis(row.basis) if row.basis else None,
        start_us=row.start_us,
        end_us=row.end_us,
    )
