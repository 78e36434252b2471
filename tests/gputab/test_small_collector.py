"""What runs on rented nodes stays small: the command line imports what a command needs, and nothing else."""

import subprocess
import sys

HEAVY = {"alembic", "fastapi", "meter", "plotly", "polars", "sqlalchemy", "store", "streamlit"}


def _imported_by(*words: str) -> set[str]:
    program = f"import sys; from gputab.cli import run; run({list(words)!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_collecting_imports_none_of_the_ledgers_libraries() -> None:
    assert _imported_by("collect", "--help") & HEAVY == set()


def test_a_command_of_the_ledger_would_be_seen() -> None:
    assert {"polars", "sqlalchemy", "store"} <= _imported_by("usage", "--help")


def test_a_collector_does_without_what_draws_on_terminals() -> None:
    program = (
        "import sys; from gputab import cli; sys.argv = ['gputab', 'collect', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: print(*(name for name, module in sys.modules.items() if module))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert imported & {"click", "pygments", "rich"} == set()
    assert "Sample the cards" in done.stdout
