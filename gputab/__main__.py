"""`python -m gputab`."""

from gputab.cli import main

main()
