"""`gputab quiesce`: let the collector let go of the cards, so that they can be changed under it."""

from typing import Annotated

import typer

from collector.quiesce import QuiesceCaller
from domain.slugs import check_name
from gputab import composition
from gputab.output import say

# The cards are let go of within a second, and taken up within two.
_PATIENCE_SECONDS = 10.0


def quiesce(
    node: Annotated[str | None, typer.Option(help="whose collector; default: the setting 'node'")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="take the cards up again")] = False,
) -> None:
    """Let go of the cards, so that they can be changed.

    For before MIG is changed, a card reset, or the driver unloaded. Returns when the collector of this node holds
    nothing of the driver any more. It stays so, also over a restart of the collector, until `gputab quiesce --resume`.
    Run it with the collector's settings: it works by way of the folder of data.
    """
    config = composition.settings()
    name = check_name("node", config.node if node is None else node)
    caller = QuiesceCaller(config.data_dir, name, composition.clock())
    if resume:
        state = caller.resume(_PATIENCE_SECONDS)
        say(f"the cards of {name} are taken up again; the driver is {state}")
    else:
        caller.quiesce(_PATIENCE_SECONDS)
        say(f"the cards of {name} are let go of; take them up again by `gputab quiesce --resume`")
