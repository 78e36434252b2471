"""The price book a person writes: YAML into the facts of domain/prices.py."""

import hashlib
import re
import reprlib
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from domain.errors import InputError
from domain.money import UNITS, Quote, check_currency, parse_quote
from domain.period import Period, format_instant, parse_iso_instant
from domain.prices import ANY_SKU, DIMENSIONS, GapPolicy, GapRules, PriceBook, Rate, VramBasis, check_overlaps
from domain.problems import listed
from domain.skus import SkuTable
from domain.slugs import check_slug

# A hole is bridged only when both its ends lie within the context that evidence keeps around its hour.
BRIDGE_SECONDS_MAX = 30
# Some forty thousand rates. Of a hundred megabytes YAML would make gigabytes first.
_BYTES_MAX = 4 * 2**20
_SHOWN_CHARACTERS = 40

_BOOK_KEYS = {"book", "currency", "gaps", "rates"}
_GAP_KEYS = {"bridge_seconds", "host_unreachable", "collector_down", "never_ready"}
_RATE_KEYS = {"dimension", "sku", "tenant", "project", "price", "unit", "basis", "from", "to"}

_INT = "tag:yaml.org,2002:int"
_READ_ANEW = (_INT, "tag:yaml.org,2002:timestamp")


class _TextLoader(yaml.SafeLoader):
    """YAML in which times stay text, whole numbers are plain digits, and no key is written twice.

    A library that reads times drops the offset that we insist on; to it 010 is 8, 1_0 is 10 and 1:30 is 90; of two keys
    it takes the last without a word.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form are the library's
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _READ_ANEW]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of the node; ConstructorError where it is not of the type that it is tagged as, or looks like."""
        try:
            return super().construct_object(node, deep)
        # What the library lets pass of what `int`, its tables of words and its patterns raise.
        except (ValueError, KeyError, IndexError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{str(node.value)[:_SHOWN_CHARACTERS]!r} is no {kind}", node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping of the node; ConstructorError for a key that is there twice."""
        seen: set[str] = set()
        # A tag can call anything a mapping, which the library finds out after this.
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} is written twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_TextLoader.add_implicit_resolver(_INT, re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z"), list("-0123456789"))


def read_price_book(path: Path, skus: SkuTable, known_skus: frozenset[str] = frozenset()) -> PriceBook:
    """The book in the file, whole and checked; InputError lists every problem with its place.

    A rate's SKU must be in the operator's table or among `known_skus` (those that cards report), so that a
    misspelt one is found before the month is out.
    """
    problems: list[str] = []
    try:
        content = yaml.load(_text_of(path), Loader=_TextLoader)  # noqa: S506 - a SafeLoader with fewer tags
        book = _Reader(problems, skus.names | known_skus).book(content)
    except OSError as error:
        raise InputError(f"cannot read the price book {str(path)!r}: {error.strerror}; check the path") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"cannot read the price book {str(path)!r}: {said}; write YAML in UTF-8") from error
    except RecursionError as error:
        raise InputError(
            f"cannot read the price book {str(path)!r}: it is nested too deeply; write its rates as one list"
        ) from error
    if problems or book is None:
        raise InputError(f"cannot use the price book {str(path)!r}: {listed(problems)}")
    return book


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_BYTES_MAX + 1)
    if len(content) > _BYTES_MAX:
        raise InputError(
            f"cannot read the price book {str(path)!r}: it has more than {_BYTES_MAX} bytes; load its rates in several "
            "files that name one book"
        )
    return content.decode("utf-8")


class _Collection:
    """What stands in a place of one value; shown short, for a few links to what stands above make it endless."""

    def __init__(self, value: object) -> None:
        shortly = reprlib.Repr()
        shortly.maxlevel = 2
        self._shown = shortly.repr(value)

    def __repr__(self) -> str:
        return self._shown


def _single(content: Mapping[Any, Any]) -> dict[Any, Any]:
    """The pairs, each with one value."""
    return {key: _Collection(each) if isinstance(each, (list, dict, set)) else each for key, each in content.items()}


class _Reader:
    """Reads what it can and keeps every problem for one report."""

    def __init__(self, problems: list[str], skus: frozenset[str]) -> None:
        self._problems = problems
        self._skus = skus

    def book(self, content: object) -> PriceBook | None:
        if not isinstance(content, Mapping):
            self._problems.append("the file holds no book; begin with `book: NAME`")
            return None
        self._keys("the book", content, _BOOK_KEYS, needed={"book", "currency", "rates"})
        head = _single({key: content.get(key) for key in ("book", "currency")})
        name = str(self._name("book", "price book", head["book"]))
        currency = head["currency"]
        if currency is not None:
            currency = self._try("currency", check_currency, currency)
        gaps = self._gaps(content.get("gaps", {}))
        rows = content.get("rates")
        if not isinstance(rows, list) or not rows:
            if rows is not None:
                self._problems.append("rates: cannot use a book without rates; write at least one")
            return None
        rates = tuple(filter(None, (self._rate(name, i, row) for i, row in enumerate(rows, start=1))))
        self._check_names(rates)
        self._try("rates", check_overlaps, rates)
        self._check_overuse(rates)
        return PriceBook(name, str(currency), gaps, rates)

    def _gaps(self, content: object) -> GapRules:
        if not isinstance(content, Mapping):
            self._problems.append("gaps: write `key: value` pairs")
            return GapRules()
        content = _single(content)
        self._keys("gaps", content, _GAP_KEYS)
        bridge = content.get("bridge_seconds", GapRules().bridge_seconds)
        if not isinstance(bridge, int) or isinstance(bridge, bool) or not 0 <= bridge <= BRIDGE_SECONDS_MAX:
            self._problems.append(f"gaps.bridge_seconds: cannot use {bridge!r}; write 0 to {BRIDGE_SECONDS_MAX}")
            bridge = 0
        policies = {}
        for key in ("host_unreachable", "collector_down", "never_ready"):
            policy = content.get(key, getattr(GapRules(), key))
            if policy not in list(GapPolicy):
                self._problems.append(f"gaps.{key}: cannot use {policy!r}; write free or on_record")
                policy = GapPolicy.FREE
            policies[key] = GapPolicy(policy)
        return GapRules(bridge_seconds=bridge, **policies)

    def _rate(self, book: str, number: int, row: object) -> Rate | None:
        place = f"rate {number}"
        if not isinstance(row, Mapping):
            self._problems.append(f"{place}: write `key: value` pairs")
            return None
        found, row = len(self._problems), _single(row)
        self._keys(place, row, _RATE_KEYS, needed={"dimension", "sku", "price", "unit", "from"})
        dimension, sku = row.get("dimension"), str(row.get("sku"))
        counts = DIMENSIONS.get(dimension) if isinstance(dimension, str) else None
        if counts is None and dimension is not None:
            self._problems.append(f"{place}: cannot price the dimension {dimension!r}; write {', '.join(DIMENSIONS)}")
        card, _, profile = sku.partition("/")
        is_known = sku == ANY_SKU or sku in self._skus or (card in self._skus and profile and "/" not in profile)
        if not is_known and row.get("sku") is not None:
            self._problems.append(f"{place}: cannot find the SKU {sku!r}; write one of the SKU table, or add it there")
        price, unit = row.get("price"), row.get("unit")
        # What is missing was said.
        quote = None if price is None or unit is None else self._try(place, parse_quote, price, unit)
        if quote is not None and counts is not None and quote.basis != counts:
            units = " or ".join(unit for unit, (basis, _) in UNITS.items() if basis == counts)
            self._problems.append(f"{place}: cannot price {dimension!r} per {quote.unit}; write {units}")
        basis = self._basis(place, row, dimension)
        period = self._period(place, row)
        tenant, project = (self._name(place, kind, row.get(kind)) for kind in ("tenant", "project"))
        if project is not None and row.get("tenant") is None:
            self._problems.append(f"{place}: cannot use the project {project!r} without its tenant; write `tenant` too")
        if len(self._problems) > found or quote is None or period is None:
            return None
        start_us, end_us = period
        scope = (str(dimension), sku, tenant, project)
        rate_id = _rate_id(book, *scope, quote, basis, start_us)
        return Rate(rate_id, *scope, quote, basis, start_us, end_us)

    def _basis(self, place: str, row: Mapping[str, Any], dimension: object) -> VramBasis | None:
        basis = row.get("basis")
        if dimension != "vram":
            if basis is not None:
                self._problems.append(f"{place}: cannot use a basis for {dimension!r}; it goes with vram")
            return None
        try:
            return VramBasis.MAX if basis is None else VramBasis(basis)
        except ValueError:
            self._problems.append(f"{place}: cannot use the basis {basis!r}; write granted, used or max")
            return None

    def _name(self, place: str, kind: str, name: object) -> str | None:
        """The name, if it is one; None also where there is none, which in a rate is everybody."""
        if isinstance(name, str):
            checked: str | None = self._try(place, check_slug, kind, name)
            return checked
        if name is not None:
            self._problems.append(f"{place}: cannot use {name!r} as a {kind}; write its name, in quotes")
        return None

    def _period(self, place: str, row: Mapping[str, Any]) -> tuple[int, int | None] | None:
        start_us, end_us = (
            self._try(f"{place}, {name}", parse_iso_instant, str(row[name])) if row.get(name) is not None else None
            for name in ("from", "to")
        )
        if start_us is None:
            return None
        if end_us is not None:
            self._try(place, Period, start_us, end_us)
        return start_us, end_us

    def _check_names(self, rates: tuple[Rate, ...]) -> None:
        for rate_id, times in Counter(rate.rate_id for rate in rates).items():
            if times > 1:
                rate = next(each for each in rates if each.rate_id == rate_id)
                self._problems.append(
                    f"rates: cannot use {times} rates of {rate.dimension!r} from {format_instant(rate.start_us)} that "
                    "differ in nothing but their end; keep one"
                )

    def _check_overuse(self, rates: tuple[Rate, ...]) -> None:
        priced = {rate.dimension for rate in rates}
        by_use = any(rate.basis in (VramBasis.MAX, VramBasis.USED) for rate in rates)
        for dimension in sorted(priced & {"vram_overuse", "vram_burst"}):
            if by_use:
                self._problems.append(
                    f"rates: cannot price {dimension} beside vram with basis max or used, which hold it already; use "
                    "basis granted"
                )
        if {"vram_overuse", "vram_burst"} <= priced:
            self._problems.append(
                "rates: cannot price vram_overuse beside vram_burst, which holds it already; keep one of them"
            )

    def _keys(self, place: str, content: Mapping[Any, Any], known: set[str], needed: Collection[str] = ()) -> None:
        there_are = f"the keys are {', '.join(sorted(known))}"
        self._problems += [f"{place}: unknown key {key!r}; {there_are}" for key in content if key not in known]
        self._problems += [f"{place}: {key} is missing; write it" for key in sorted(needed) if content.get(key) is None]

    def _try(self, place: str, call: Any, *arguments: object) -> Any:
        try:
            return call(*arguments)
        except InputError as error:
            self._problems.append(f"{place}: {error}")
            return None


def _rate_id(
    book: str,
    dimension: str,
    sku: str,
    tenant: str | None,
    project: str | None,
    quote: Quote,
    basis: VramBasis | None,
    start_us: int,
) -> str:
    parts = (
        book,
        dimension,
        sku,
        tenant or "",
        project or "",
        f"{quote.price}",
        quote.unit,
        basis or "",
        str(start_us),
    )
    return f"rate_{hashlib.sha256(chr(31).join(parts).encode()).hexdigest()[:16]}"
