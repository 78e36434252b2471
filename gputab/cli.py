"""The `gputab` command: every group of commands, in the order of the pipeline."""

import errno
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from domain.errors import CapacityError, ConflictError, GputabError, InputError, NotFoundError
from gputab.output import say

# Name -> where its group of commands, or its one command, is. Only what is run is imported: a collector on a rented
# node has no use for the ledger's libraries.
PIPELINE = {
    "demo": "demo:demo",
    "bill": "bill:bill",
    "db": "database:app",
    "tenant": "tenants:tenant_app",
    "token": "tenants:token_app",
    "victoriametrics": "victoriametrics:victoriametrics",
    "collect": "collect:collect",
    "quiesce": "quiesce:quiesce",
    "doctor": "doctor:doctor",
    "samples": "samples:app",
    "replay": "replay:replay",
    "allocator": "serve:serve",
    "alloc": "alloc:app",
    "allocations": "allocations:app",
    "prices": "prices:app",
    "meter": "meter:app",
    "usage": "bills:usage",
    "invoice": "bills:invoice",
    "explorer": "explorer:explorer",
    "alerts": "alerts:app",
}


class PipelineGroup(TyperGroup):
    """Lists the commands in the order data flows, and imports each when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        """The names, in that order."""
        return list(PIPELINE)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        if cmd_name in PIPELINE and cmd_name not in self.commands:
            module, name = PIPELINE[cmd_name].split(":")
            part = getattr(import_module(f"gputab.commands.{module}"), name)
            carrier = _plain_typer()
            if isinstance(part, typer.Typer):
                carrier.add_typer(part, name=cmd_name)
            else:
                carrier.command(cmd_name)(part)
            self.commands.update(get_group(carrier).commands)
        return super().get_command(ctx, cmd_name)


def _plain_typer(**how: Any) -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **how)


app = get_group(
    _plain_typer(
        name="gputab",
        cls=PipelineGroup,
        help="The taximeter for rented GPUs: collect, grant, meter, invoice.",
        no_args_is_help=True,
    )
)
# What a file system says where it cannot take the output.
_CANNOT_TAKE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main() -> None:
    """Run one command; exit code 0 on success, 2 for input that cannot be used, 1 for what else failed.

    It is 130 where Ctrl-C ended it, and 75 where `gputab collect` has given the driver up.
    """
    if sys.stdout is None:
        # It was closed before we began: nobody wants our output.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.argv[1:2] == ["collect"]:
        _forgo_terminal_libraries()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:
        # `run` has said so; the interpreter would say it again, at length.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _forgo_terminal_libraries() -> None:
    """Let httpx and structlog do without what they import to draw on a terminal, if it is there.

    A collector draws nothing, and it is a tenth of the memory that a node would give for it.
    """
    for name in ("click", "rich"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # how an import is told that there is no such thing


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; an error becomes one line on stderr.

    Output that cannot be written is one, unless nobody reads it any more: who closed the pipe knows.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return 1
    except OSError as error:
        if error.errno not in _CANNOT_TAKE or error.filename is not None:
            raise
        say(f"gputab: cannot write the output: {error.strerror}; send it elsewhere, or free some space")
        return 1
    return code


def _run(arguments: list[str]) -> int:
    try:
        _refuse_unencodable(arguments)
        app(args=arguments, prog_name="gputab")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except CapacityError as error:
        say(f"gputab: {error}")
        return 1
    except (InputError, NotFoundError, ConflictError) as error:
        say(f"gputab: {error}")
        return 2
    except GputabError as error:
        say(f"gputab: {error}")
        return 1
    except KeyboardInterrupt:
        say("gputab: stopped")
        return 130
    return 0


def _refuse_unencodable(arguments: list[str]) -> None:
    """Raise InputError for an argument with bytes that are no UTF-8: no database, URL or header can hold it."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"cannot read the argument {argument!r}: it is no UTF-8; write it in UTF-8, or rename the file"
            ) from error
