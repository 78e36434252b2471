"""The `gputab` command: every group of commands, in the order of the pipeline."""

import sys

import typer

from domain.errors import GputabError, InputError
from gputab.commands import alloc, allocations, bills, collect, database, demo, meter, prices, samples, serve, tenants
from gputab.output import say

app = typer.Typer(
    name="gputab",
    help="The taximeter for rented GPUs: collect, grant, meter, invoice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(database.app, name="db")
app.add_typer(tenants.tenant_app, name="tenant")
app.add_typer(tenants.token_app, name="token")
app.add_typer(prices.app, name="prices")
app.command("collect")(collect.collect)
app.add_typer(samples.app, name="samples")
app.command("allocator")(serve.serve)
app.add_typer(alloc.app, name="alloc")
app.add_typer(allocations.app, name="allocations")
app.add_typer(meter.app, name="meter")
app.command("usage")(bills.usage)
app.command("invoice")(bills.invoice)
app.command("demo")(demo.demo)


def main() -> None:
    """Run one command; exit code 0 on success, 2 for unusable input, 1 for anything else that failed."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; an error becomes one line on stderr."""
    try:
        app(args=arguments, prog_name="gputab")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except InputError as error:
        say(f"gputab: {error}")
        return 2
    except GputabError as error:
        say(f"gputab: {error}")
        return 1
    except KeyboardInterrupt:
        say("gputab: stopped")
        return 130
    return 0
