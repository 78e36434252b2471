"""Where the program begins: `gputab`, and `python -m gputab`."""

import signal


def main() -> None:
    """Run one command, as `cli.py` does.

    While that is imported nobody would catch a KeyboardInterrupt: until then Ctrl-C ends the process by its signal,
    without a word, unless it is ignored, as in the background of a shell.
    """
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gputab import cli

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
