"""`gputab alerts`: the rules that wake people, the servers that evaluate them, and the page at their end."""

import os
import signal
from pathlib import Path
from threading import Event
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console

from alerts import alertmanager as alertmanager_launcher
from alerts.card_rules import SHIPPED_CARD_RULES, render_card_rules
from alerts.page_text import draw
from alerts.pager import Page, Pager
from alerts.readings import StoredReadings
from alerts.receiver import Receiver
from alerts.routes import DEFAULT_WEBHOOK, render_routes
from alerts.rule_check import Rule, read_rules, rule_problems
from alerts.rule_trial import load_problems, unit_test_problems
from alerts.watermark_rules import SHIPPED_RULES, Patience, render_rules
from domain.errors import InputError
from gputab import composition
from gputab.output import say
from gputab.whole_numbers import whole_option
from machine.programs import ALERTMANAGER, VMALERT, VMALERT_TOOL, Program, find_program
from settings.gputab import Settings
from victoriametrics import vmalert as vmalert_launcher

app = typer.Typer(help="Alerts of cards, their VRAM and their nodes: rules, servers, pages.", no_args_is_help=True)

_LOOPBACK = ("127.0.0.1", "localhost")
_RECEIVER_PORT = urlsplit(DEFAULT_WEBHOOK).port or 0
# Not 8880, its own default: vmalert-tool needs that, and has no flag for another.
_VMALERT_PORT = 8471

_USUAL = Patience()

_ForSeconds = Annotated[int, whole_option("how long a card must be above a mark, or silent", least=0)]
_KeepFiringSeconds = Annotated[int, whole_option("how long an alert outlasts the last reading above its mark", least=0)]
_RuleFiles = Annotated[list[Path] | None, typer.Argument(help="files of rules; default: the shipped ones")]
_Webhook = Annotated[str, typer.Option(help="the URL that is told of each card")]


@app.command()
def check(rules: _RuleFiles = None) -> None:
    """Look for everything that is wrong with alert rules: series, pages, syntax, and their unit tests."""
    config = composition.settings()
    # First, so that a program that is missing does not hide what is wrong.
    vmalert_binary, tool_binary = _find(config, VMALERT), _find(config, VMALERT_TOOL)
    files: dict[Path, list[Rule]] = {}
    problems: list[str] = []
    for path in rules or [SHIPPED_RULES, SHIPPED_CARD_RULES]:
        try:
            files[path] = read_rules(path)
        except InputError as error:
            problems.append(str(error))
    problems += rule_problems(files)
    for path in files:
        problems += load_problems(vmalert_binary, path)
    problems += unit_test_problems(tool_binary, list(files), say)
    for problem in problems:
        say(problem)
    if problems:
        raise InputError(f"cannot rely on these rules: {len(problems)} problems; mend what is named above")
    say(f"{sum(map(len, files.values()))} rules in {len(files)} files are as they should be")


@app.command("rules")
def print_rules(
    for_seconds: _ForSeconds = _USUAL.for_s, keep_firing_seconds: _KeepFiringSeconds = _USUAL.keep_firing_s
) -> None:
    """Print the rule file for vmalert that watches VRAM."""
    typer.echo(render_rules(Patience(for_seconds, keep_firing_seconds)), nl=False)


@app.command("card-rules")
def print_card_rules() -> None:
    """Print the rule file for vmalert that watches how cards and their collectors are."""
    typer.echo(render_card_rules(), nl=False)


@app.command("routes")
def print_routes(webhook: _Webhook = DEFAULT_WEBHOOK) -> None:
    """Print the configuration for Alertmanager."""
    typer.echo(render_routes(webhook), nl=False)


@app.command()
def vmalert(
    rules: _RuleFiles = None,
    for_seconds: _ForSeconds = _USUAL.for_s,
    keep_firing_seconds: _KeepFiringSeconds = _USUAL.keep_firing_s,
    port: Annotated[int, whole_option("the port on loopback", least=1, most=65_535)] = _VMALERT_PORT,
) -> None:
    """Run vmalert here, until it is stopped: it evaluates the rules and tells Alertmanager.

    It reads from `victoriametrics_url`, keeps what fires there too, and sends to `alertmanager_url`.
    """
    config = composition.settings()
    patience = Patience(for_seconds, keep_firing_seconds)
    if rules and patience != _USUAL:
        raise InputError(
            "cannot change the times of rules in a file: leave out --for-seconds and --keep-firing-seconds"
        )
    for path in rules or []:
        read_rules(path)
    binary = _find(config, VMALERT)
    folder = _own_folder(config)
    own = [folder / SHIPPED_RULES.name, folder / SHIPPED_CARD_RULES.name]
    for file, text in zip(own, (render_rules(patience), render_card_rules()), strict=True):
        file.write_text(text, "utf-8")
    store = composition.sample_store(config)
    vmalert_launcher.write_secrets(store, config.alertmanager_url, secrets_dir=folder)
    _become(
        vmalert_launcher.command(
            binary=binary,
            port=port,
            rules=rules or own,
            victoriametrics=store,
            alertmanager_url=config.alertmanager_url,
            secrets_dir=folder,
        )
    )


@app.command()
def alertmanager(webhook: _Webhook = DEFAULT_WEBHOOK) -> None:
    """Run Alertmanager here, until it is stopped: it tells the webhook of each card, once, and again every 4 h.

    On the loopback port that `alertmanager_url` names, with its data in `data_dir`, and on no other port.
    """
    config = composition.settings()
    url = urlsplit(config.alertmanager_url)
    if url.scheme != "http" or url.hostname not in _LOOPBACK or url.port is None or url.path.strip("/"):
        raise InputError(
            "cannot run Alertmanager here: it would not be at `alertmanager_url`; write it as http://127.0.0.1:9093"
        )
    routes = render_routes(webhook)
    binary = _find(config, ALERTMANAGER)
    folder = _own_folder(config)
    file = folder / "alertmanager.yaml"
    # A webhook's URL may hold a password.
    file.touch(mode=0o600)
    file.write_text(routes, "utf-8")
    data_dir = folder / "alertmanager"
    _become(alertmanager_launcher.command(binary=binary, port=url.port, config=file, data_dir=data_dir))


@app.command()
def receive(
    port: Annotated[int, whole_option("the port on loopback; 0: any free one", least=0, most=65_535)] = _RECEIVER_PORT,
) -> None:
    """Print a page for each card that Alertmanager tells of, until it is stopped.

    An alert that ends is believed only with a fresh reading in `victoriametrics_url`; else its state is unknown.
    """
    config = composition.settings()
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    console = Console(highlight=False, emoji=False)

    def show(page: Page) -> None:
        console.print(draw(page))
        # Whoever reads it through a pipe is to have it before Alertmanager is told so.
        console.file.flush()

    with (
        StoredReadings(composition.sample_store(config), composition.clock()) as readings,
        Receiver(Pager(show, readings, composition.clock()), port=port, complain=say) as receiver,
    ):
        say(f"waiting for pages at {receiver.url}")
        stopped.wait()


def _find(config: Settings, program: Program) -> Path:
    explicit: Path | None = getattr(config, program.setting)
    found = find_program(program, explicit=explicit, cache_folder=config.programs_path.absolute(), progress=say)
    for note in found.passed_over:
        say(note)
    return found.path


def _own_folder(config: Settings) -> Path:
    folder = config.data_dir / "alerts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _become(command: list[str]) -> None:
    # It takes this process's place, so that signals and exit codes are its own.
    os.execvp(command[0], command)  # noqa: S606 - a list without a shell, found by machine/programs.py
