"""The documentation cannot lie: each command, setting, series, word of make, link and file that it names exists.

What counts as said: inline code, and the lines of fenced blocks except those marked `text`, `mermaid` or as another
language than the shell. Every check is tried on the documents and on a sentence that lies.
"""

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined
from typer.core import TyperGroup

from domain.prices import DIMENSIONS
from domain.series import CATALOGUE
from gputab.cli import app
from settings.gputab import Settings

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SHELL = {"", "sh", "bash", "console", "shell"}
PREFIX = "GPUTAB_"
# Labels, settings and CSV columns that look like series.
NO_SERIES = {label for series in CATALOGUE.values() for label in series.labels} | set(Settings.model_fields)

PATHS = [file.relative_to(ROOT).as_posix() for file in [*ROOT.glob("*.*"), *ROOT.glob("[!.]*/**/*.*")]]


@dataclass(frozen=True)
class Document:
    """A Markdown file; `path` is relative to the checkout."""

    path: str
    text: str

    @property
    def fences(self) -> list[tuple[str, str]]:
        """(language, content) of every fenced block."""
        return re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", self.text, re.MULTILINE | re.DOTALL)

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return re.sub(r"^ *```.*?^ *```", "", self.text, flags=re.MULTILINE | re.DOTALL)

    @property
    def spans(self) -> list[str]:
        """Inline code, which may be broken over two lines."""
        return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", self.prose)]

    @property
    def code(self) -> list[str]:
        """Inline code and each line of the shell's blocks without prompt and comment, continued lines joined."""
        shell = [text.replace("\\\n", " ") for language, text in self.fences if language in SHELL]
        lines = [re.sub(r"(^|\s)#.*", "", line) for text in shell for line in text.splitlines()]
        return [*self.spans, *(line.strip().removeprefix("$ ") for line in lines)]

    def words_after(self, program: str) -> list[list[str]]:
        """The arguments of each call of the program, up to a pipe, a redirection or the next command."""
        calls = []
        for code in self.code:
            for call in re.findall(rf"(?:^|[\s;&(/]){re.escape(program)}(?=\s|$)([^;&<>]*)", code):
                words = shlex.split(call)
                calls.append(words[: words.index("|")] if "|" in words else words)
        return calls


def documents() -> list[Document]:
    """Every Markdown file of the checkout."""
    return [Document(path, (ROOT / path).read_text("utf-8")) for path in sorted(PATHS) if path.endswith(".md")]


def false_commands(document: Document) -> Iterator[str]:
    """Calls of gputab that its command line would refuse: command, option, or an argument too many."""
    for words in document.words_after("gputab"):
        try:
            _follow(app, words)
        except LookupError as error:
            yield f"gputab {' '.join(words)}: {error}"


def _follow(command: object, words: list[str]) -> None:
    """Walk down the groups; `a|b` stands for either, `[--x]` for an option that may be left out."""
    if isinstance(command, TyperGroup):
        if words and not words[0].startswith("-"):
            for name in words[0].split("|"):
                found = command.get_command(None, name)  # type: ignore[arg-type] # it needs no context
                if found is None:
                    raise LookupError(f"no command {name!r}")
                _follow(found, words[1:])
        return
    parameters = command.params  # type: ignore[attr-defined] # the command library has no types of its own
    options = {name: each for each in parameters for name in (*each.opts, *each.secondary_opts) if name[0] == "-"}
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    waiting = [word.strip("[]") for word in words if word.strip("[].")]
    given = 0
    while waiting:
        name, has_value, _ = waiting.pop(0).partition("=")
        if not name.startswith("-"):
            given += 1
        elif name == "--help":
            continue
        elif name not in options:
            raise LookupError(f"no option {name!r}")
        elif not (options[name].is_flag or has_value) and waiting and not waiting[0].startswith("-"):
            waiting.pop(0)
    if given > len(arguments) and not any(each.nargs == -1 for each in arguments):
        raise LookupError(f"takes {len(arguments)} arguments, not {given}")


def false_settings(document: Document) -> Iterator[str]:
    """Environment variables and keys of gputab.toml that are no settings."""
    for name in re.findall(rf"{PREFIX}[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!\*)", document.text):
        if name.removeprefix(PREFIX).lower() not in Settings.model_fields:
            yield name
    for language, text in document.fences:
        if language == "toml":
            content = tomllib.loads(text)
            # The SKU table is the other TOML file there is.
            yield from (key for key in content if key not in Settings.model_fields and key != "sku")


def false_series(document: Document) -> Iterator[str]:
    """Inline code that looks like a series of ours and is not in the catalogue."""
    for span in document.spans:
        name = re.fullmatch(r"((?:allocator|collector|gpu|meter)_[a-z0-9_]+[a-z0-9])(?:\{.*\})?", span)
        if name and name[1] not in CATALOGUE and name[1] not in NO_SERIES:
            yield name[1]


def false_make_words(document: Document) -> Iterator[str]:
    """Words of make that the Makefile does not have."""
    known = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for words in document.words_after("make"):
        yield from (word for word in words if re.fullmatch(r"[a-z][a-z-]*", word) and word not in known)


def false_links(document: Document) -> Iterator[str]:
    """Relative links and pictures without a file, and anchors without a heading."""
    here = (ROOT / document.path).parent
    for target in re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", document.prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = here / path if path else ROOT / document.path
        if not file.exists() or (anchor and anchor not in _anchors(file.read_text("utf-8") if path else document.text)):
            yield target


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    headings = re.findall(r"^#+ +(.*?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def false_files(document: Document) -> Iterator[str]:
    """Python and Markdown files in inline code with which no path of the checkout ends."""
    for span in document.spans:
        if re.fullmatch(r"[\w./-]+\.(?:py|md)", span) and not any(f"/{path}".endswith(f"/{span}") for path in PATHS):
            yield span


Check = Callable[[Document], Iterator[str]]
CHECKS: tuple[Check, ...] = (
    false_commands,
    false_settings,
    false_series,
    false_make_words,
    false_links,
    false_files,
)


@pytest.mark.parametrize("check", CHECKS)
def test_the_documents_are_true(check: Check) -> None:
    assert [f"{document.path}: {lie}" for document in documents() for lie in check(document)] == []


LIES = {
    "a command": (false_commands, "Run `gputab prices laod FILE`.", ["gputab prices laod FILE: no command 'laod'"]),
    "one of two commands": (
        false_commands,
        "`gputab db upgrade|chekc`",
        ["gputab db upgrade|chekc: no command 'chekc'"],
    ),
    "an option": (false_commands, "```sh\ngputab usage --form 0 \\\n  --to 1\n```\n", None),
    "an argument too many": (false_commands, "```\n$ gputab meter status now | head\n```\n", None),
    "a variable": (false_settings, "Set GPUTAB_TOKENS.", ["GPUTAB_TOKENS"]),
    "a key": (false_settings, '```toml\ntokens = "x"\n```\n', ["tokens"]),
    "a series": (false_series, "While `gpu_upp` is 1", ["gpu_upp"]),
    "a series with labels": (false_series, 'While `gpu_upp{node="a"}` is 1', ["gpu_upp"]),
    "a word of make": (false_make_words, "Run `make demos DURATION=60`.", ["demos"]),
    "a file": (false_files, "See `meter/ratings.py`.", ["meter/ratings.py"]),
    "a link": (false_links, "See [this](docs/none.md).", ["docs/none.md"]),
    "a picture": (false_links, "![the demo](docs/none.svg)", ["docs/none.svg"]),
    "an anchor": (false_links, "# Exact money\n[there](#exact-monies)", ["#exact-monies"]),
}


@pytest.mark.parametrize("case", LIES)
def test_a_lie_is_seen(case: str) -> None:
    check, text, expected = LIES[case]
    found = list(check(Document("README.md", text)))
    assert len(found) == 1 if expected is None else found == expected


TRUTHS = """# Exact money
`gputab prices load|check FILE`, `gputab usage --from --to [--by COLUMNS] --format=json`, `gputab --help`,
`GPUTAB_*`, `GPUTAB_TOKEN`, `gpu_uuid`, `gpu_up{node="a"}`, `make setup test DURATION=60`, `meter/rating/rating.py`,
[money](#exact-money), [site](https://example.com/x)
```sh
GPUTAB_TOKEN=x gputab usage --from 0 --to 1 --format json > usage.json   # for a month
.venv/bin/gputab db check && gputab meter status | head
```
```text
gputab   the front door
```
"""


@pytest.mark.parametrize("check", CHECKS)
def test_the_truth_is_let_pass(check: Check) -> None:
    assert list(check(Document("README.md", TRUTHS))) == []


def settings_table(text: str) -> dict[str, tuple[str, str, str]]:
    """Key -> (variable, default, meaning) of the rows of docs/settings.md, code marks removed."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    return {key: (variable, default.strip().strip("`"), meaning.strip()) for key, variable, default, meaning in rows}


def test_every_setting_is_described_with_its_variable_and_default() -> None:
    table = settings_table((ROOT / "docs" / "settings.md").read_text("utf-8"))
    assert list(table) == list(Settings.model_fields)
    for key, field in Settings.model_fields.items():
        variable, default, meaning = table[key]
        assert variable == f"{PREFIX}{key.upper()}"
        if field.default is not PydanticUndefined:
            assert default == ("none" if field.default is None else str(field.default)), key
        assert meaning


def test_the_rules_of_a_bill_name_every_dimension_that_has_a_price() -> None:
    page = (ROOT / "docs" / "billing.md").read_text("utf-8")
    (table,) = re.findall(r"\| dimension \| counts .*?\n\n", page, re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(DIMENSIONS)
