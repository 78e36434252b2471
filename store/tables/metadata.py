"""The one MetaData, and the column forms that every table shares."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Identity, Index, Integer, MetaData, Text
from sqlalchemy.sql.elements import ColumnElement

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Lists, pages and digests come in one order on every server, the one of Python and SQLite: PostgreSQL else orders text
# by the language that the server was set up with.
PlainText = Text().with_variant(Text(collation="C"), "postgresql")

# SQLite numbers rows by itself only where the key's type is INTEGER; PostgreSQL wants 64 bits.
RowId = BigInteger().with_variant(Integer(), "sqlite")


def row_id(name: str) -> Column[int]:
    """A key that the database numbers."""
    return Column(name, RowId, Identity(), primary_key=True)


def instant(name: str, *, nullable: bool = False) -> Column[int]:
    """An instant in microseconds UTC."""
    return Column(name, BigInteger, nullable=nullable)


def text(name: str, *, nullable: bool = False) -> Column[str]:
    """Text of any length, ordered by code points."""
    return Column(name, PlainText, nullable=nullable)


def whole(name: str, *, nullable: bool = False) -> Column[int]:
    """A whole number of 64 bits: bytes, seconds, compute units, nano-units."""
    return Column(name, BigInteger, nullable=nullable)


def interval_check() -> CheckConstraint:
    """[start_us, end_us) does not end before it starts; end_us null is an open interval."""
    return CheckConstraint("end_us IS NULL OR end_us >= start_us", name="interval")


def one_of(column: str, *values: str) -> CheckConstraint:
    """The column holds one of the words."""
    words = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({words})", name=column)


def unique_where(name: str, condition: ColumnElement[bool], *columns: Column[str]) -> Index:
    """A unique index over the rows that fulfil the condition, on both databases."""
    return Index(name, *columns, unique=True, sqlite_where=condition, postgresql_where=condition)
