"""How the explorer is run: Streamlit, with every option that matters said on its command line."""

import sys
from pathlib import Path

# A token is typed into the page, so it is served to this machine only; a proxy with TLS carries it further.
ADDRESS = "127.0.0.1"

_APP = Path(__file__).with_name("app.py")
# Said here and in no file of the working directory, over which a command line has the last word.
_OPTIONS = {
    "server.address": ADDRESS,
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    # Its own export writes what the page shows; ours writes exact amounts.
    "client.disableDataExport": "true",
    "logger.hideWelcomeMessage": "true",
    # A token must not be in the log of an error, nor one that is drawn in colours.
    "logger.enableRich": "false",
    # A colour for both: one for `theme` alone would make every page light.
    "theme.light.primaryColor": "#0f766e",
    "theme.dark.primaryColor": "#2dd4bf",
}


def command(port: int) -> list[str]:
    """The program and its arguments that serve the explorer on `ADDRESS` until it is stopped.

    It reads the settings as any gputab command does: `gputab.toml` in its working directory, and `GPUTAB_*`.
    """
    options = {**_OPTIONS, "server.port": str(port)}
    return [
        # -P: a settings.py or store.py that happens to lie in the working directory would be taken for ours.
        *(sys.executable, "-P", "-m", "streamlit", "run", str(_APP)),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
