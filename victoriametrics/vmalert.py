"""The command of a vmalert on loopback that evaluates rules against one VictoriaMetrics.

Which program to run is `machine.programs.VMALERT`; an older one is refused there by the flag it lacks.
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from domain.urls import without_credentials

EVALUATION_INTERVAL_S = 5
# Alertmanager takes an alert that it has not heard of for four times as long as recovered.
RESEND_DELAY_S = 60

_STORE = ("datasource", "remoteWrite", "remoteRead")
_NOTIFIER = ("notifier",)


def command(
    *,
    binary: Path,
    port: int,
    rules: Sequence[Path],
    victoriametrics_url: str,
    alertmanager_url: str,
    secrets_dir: Path,
    evaluation_interval_s: int = EVALUATION_INTERVAL_S,
    resend_delay_s: int = RESEND_DELAY_S,
) -> list[str]:
    """The command line of a vmalert with one port, on loopback, and no other.

    It keeps what fires in the same VictoriaMetrics and looks it up there, after a restart and in the rules. When the
    store or vmalert itself is away, Alertmanager calls an alert resolved once four times the longer of
    `resend_delay_s` and `evaluation_interval_s` have gone by. A password of a URL, which everyone on the machine could
    read here, is taken from `secrets_dir`, where `write_passwords` put it.
    """
    return [
        str(binary),
        *(f"-rule={rule}" for rule in rules),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-external.url=http://127.0.0.1:{port}",
        *_server_flags(_STORE, victoriametrics_url, secrets_dir),
        *_server_flags(_NOTIFIER, alertmanager_url, secrets_dir),
        f"-evaluationInterval={evaluation_interval_s}s",
        f"-rule.resendDelay={resend_delay_s}s",
        # Asked for the present, not for what was half a minute ago: the rules' own windows say what is fresh.
        "-rule.evalDelay=0s",
        # The rules look up what fires, and it is seen there some seconds later; a shorter one would find nothing.
        "-datasource.queryStep=5m",
        # What fires is seen in the store as soon as it can be.
        "-remoteWrite.flushInterval=1s",
    ]


def write_passwords(victoriametrics_url: str, alertmanager_url: str, *, secrets_dir: Path) -> None:
    """Put the passwords of these URLs where `command` tells vmalert to look, readable by their owner only."""
    secrets_dir.mkdir(parents=True, exist_ok=True)
    for names, url in ((_STORE, victoriametrics_url), (_NOTIFIER, alertmanager_url)):
        password = urlsplit(url).password
        if password is not None:
            file = _password_file(names, secrets_dir)
            file.touch(mode=0o600)
            file.write_text(unquote(password), "utf-8")


def _server_flags(names: Sequence[str], url: str, secrets_dir: Path) -> list[str]:
    flags = [f"-{name}.url={without_credentials(url)}" for name in names]
    user = urlsplit(url).username
    if user is not None:
        flags += [f"-{name}.basicAuth.username={unquote(user)}" for name in names]
    if urlsplit(url).password is not None:
        flags += [f"-{name}.basicAuth.passwordFile={_password_file(names, secrets_dir)}" for name in names]
    return flags


def _password_file(names: Sequence[str], secrets_dir: Path) -> Path:
    return secrets_dir / f"{names[0]}.password"
