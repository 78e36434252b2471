"""Looks for what is wrong with alert rules before they are relied on: all of it, in every file, at once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from domain.errors import InputError
from domain.series import CATALOGUE
from victoriametrics.expressions import series_names

# What vmalert itself writes.
_OF_VMALERT = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_LABELS = {label for series in CATALOGUE.values() for label in series.labels}
_PREFIXES = sorted({name.partition("_")[0] for name in CATALOGUE})
_LOOKS_LIKE_A_SERIES = re.compile(rf"\b(?:{'|'.join(_PREFIXES)})_[a-z0-9_]+")
# What a template does, such as to ask for a series; all else of it is text for people.
_ACTION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_CHECKOUT = Path(__file__).resolve().parent.parent


# A key with nothing behind it is an empty list or mapping to vmalert.
_Texts = Annotated[dict[str, str], BeforeValidator(lambda value: value or {})]


class Rule(BaseModel):
    """A rule of vmalert, as far as it is looked at here; vmalert itself knows the rest."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    alert: str = ""
    record: str = ""
    expr: str
    labels: _Texts = {}
    annotations: _Texts = {}


class _Group(BaseModel):
    model_config = ConfigDict(extra="ignore")

    rules: Annotated[list[Rule], BeforeValidator(lambda value: value or [])] = []


class _RuleFile(BaseModel):
    model_config = ConfigDict(extra="ignore")

    groups: list[_Group]


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file; InputError where it cannot be read, or has not the shape of one."""
    try:
        groups = _RuleFile.model_validate(read_yaml(path)).groups
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"cannot use '{path}': {place}: {first['msg']}; write it as vmalert's rules") from error
    return [rule for group in groups for rule in group.rules]


class _TextLoader(yaml.SafeLoader):
    """Takes numbers, dates and switches for text, as vmalert does where it wants text; and nothing for ''."""

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012 - the base class's


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, every scalar of it as text; InputError where it cannot be read."""
    try:
        return yaml.load(path.read_text("utf-8"), Loader=_TextLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}; check the path") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise InputError(f"cannot read '{path}': it is no YAML ({words}); mend it") from error


def rule_problems(files: Mapping[Path, Sequence[Rule]]) -> Iterator[str]:
    """Everything that is wrong with the rules by themselves, a line each; a series that one of them records is one."""
    recorded = {rule.record for rules in files.values() for rule in rules if rule.record}
    for path, rules in files.items():
        for rule in rules:
            where = f"{path}: {rule.alert or rule.record or 'a rule without a name'}"
            yield from (f"{where}: {problem}" for problem in _series_problems(rule, recorded))
            if rule.alert:
                yield from (f"{where}: {problem}" for problem in _page_problems(rule))


def _series_problems(rule: Rule, recorded: set[str]) -> Iterator[str]:
    known = CATALOGUE.keys() | _OF_VMALERT | recorded
    try:
        names = series_names(rule.expr)
    except InputError as error:
        names = set()
        yield str(error)
    # A query of an annotation that finds nothing leaves a hole in a page, and nobody is told.
    actions = [action for text in rule.annotations.values() for action in _ACTION.findall(text)]
    words = {name for action in actions for name in _LOOKS_LIKE_A_SERIES.findall(action)} - _LABELS
    for name in sorted((names | words) - known):
        close = get_close_matches(name, sorted(known), n=1)
        yield f"there is no series '{name}'; " + (f"write '{close[0]}'" if close else "see domain/series/ for all")


def _page_problems(rule: Rule) -> Iterator[str]:
    if not rule.labels.get("severity"):
        yield "it has no label 'severity'; write one"
    for name in ("summary", "description", "runbook_url"):
        if not rule.annotations.get(name, "").strip():
            yield f"it has no annotation '{name}'; write one"
    runbook = rule.annotations.get("runbook_url", "").strip()
    if runbook and not _is_there(runbook):
        yield f"there is no runbook '{runbook}'; write it, or its URL"


def _is_there(runbook: str) -> bool:
    """Whether a path leads to a file, from the working directory or the checkout; a URL is not followed."""
    if urlsplit(runbook).scheme in ("http", "https"):
        return True
    return any((folder / runbook).is_file() for folder in (Path.cwd(), _CHECKOUT))
