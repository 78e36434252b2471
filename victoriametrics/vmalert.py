"""The command of a vmalert on loopback that evaluates rules against one VictoriaMetrics.

Which program to run is `machine.programs.VMALERT`; an older one is refused there by the flag it lacks.
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from domain.urls import without_credentials
from victoriametrics.store_address import StoreAddress

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
    victoriametrics: StoreAddress | str,
    alertmanager_url: str,
    secrets_dir: Path,
    evaluation_interval_s: int = EVALUATION_INTERVAL_S,
    resend_delay_s: int = RESEND_DELAY_S,
) -> list[str]:
    """The command line of a vmalert with one port, on loopback, and no other.

    It keeps what fires in the same VictoriaMetrics and looks it up there, after a restart and in the rules. When the
    store or vmalert itself is away, Alertmanager calls an alert resolved once four times the longer of
    `resend_delay_s` and `evaluation_interval_s` have gone by. A password or token, which everyone on the machine could
    read here, is taken from `secrets_dir`, where `write_secrets` put it.
    """
    store = StoreAddress.of(victoriametrics)
    return [
        str(binary),
        *(f"-rule={rule}" for rule in rules),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-external.url=http://127.0.0.1:{port}",
        *_server_flags(_STORE, store.url, secrets_dir),
        *_store_flags(store, secrets_dir),
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


def write_secrets(victoriametrics: StoreAddress | str, alertmanager_url: str, *, secrets_dir: Path) -> None:
    """Put passwords and the token where `command` tells vmalert to look, readable by their owner only."""
    store = StoreAddress.of(victoriametrics)
    secrets_dir.mkdir(parents=True, exist_ok=True)
    for names, url in ((_STORE, store.url), (_NOTIFIER, alertmanager_url)):
        password = urlsplit(url).password
        if password is not None:
            _write_secret(_password_file(names, secrets_dir), unquote(password))
    if store.token is not None:
        _write_secret(_token_file(secrets_dir), store.token)


def _write_secret(file: Path, secret: str) -> None:
    file.touch(mode=0o600)
    file.write_text(secret, "utf-8")


def _store_flags(store: StoreAddress, secrets_dir: Path) -> list[str]:
    flags = []
    if store.token is not None:
        flags += [f"-{name}.bearerTokenFile={_token_file(secrets_dir)}" for name in _STORE]
    if store.ca_file is not None:
        flags += [f"-{name}.tlsCAFile={store.ca_file}" for name in _STORE]
    return flags


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


def _token_file(secrets_dir: Path) -> Path:
    return secrets_dir / f"{_STORE[0]}.token"
