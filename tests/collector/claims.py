"""Other processes of this machine that claim a node."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

STORE = "http://127.0.0.1:8428"
# Nothing is put down in it.
STATE = Path("state.json")
# Takes the claim of a node at a store, says what it was told, and lives until its input ends.
HOLDER = """
import os, sys
from pathlib import Path
from collector.node_claim import NodeClaim
claim = NodeClaim(*sys.argv[1:3], Path("its state.json"))
{}
print(claim.take(), flush=True)
sys.stdin.read()
"""


class Holder(NamedTuple):
    """Another process, and what it was told as it took the claim."""

    process: subprocess.Popen[str]
    answer: str


# Starts one with lines of its own before it takes the claim, at that store.
Hold = Callable[..., Holder]


@contextmanager
def holders(node: str) -> Iterator[Hold]:
    """Starts processes that claim that node; they are killed at the end."""
    with ExitStack() as stack:

        def start(lines: str = "", store: str = STORE) -> Holder:
            command = [sys.executable, "-c", HOLDER.format(lines), node, store]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            return Holder(process, process.stdout.readline().strip())

        yield start
