"""gputab's own processes under supervisord: started in order, started again when they die, stopped in reverse.

supervisord (Supervisor 4) is written a configuration and asked over its Unix socket by XML-RPC; nothing of it
listens on the network.
"""

import shlex
import shutil
import sys
import tempfile
import xmlrpc.client
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from supervisor.xmlrpc import Faults, SupervisorTransport

from domain.clock import Clock
from domain.errors import InputError, UnavailableError
from machine.process import Child, last_line

_START_TIMEOUT_S = 20.0
# A collector may need this long to empty its queue into the store.
_STOP_WAIT_S = 15
_HEAD = """[unix_http_server]
file={socket}
chmod=0700

[supervisord]
nodaemon=true
silent=true
logfile={folder}/supervisord.log
pidfile={folder}/supervisord.pid
childlogdir={folder}

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface"""
# A start has failed where the program ends within this time. One of ours that cannot go on has said so by then, on a
# busy machine, too.
_START_S = 5
# supervisord waits 1 s, 2 s, 3 s and so on between failed starts, and gives up after so many: some 580 days. What a
# program of a service waits for may be away for as long as it likes, and the wait stays in proportion: after an outage
# of an hour the next start is a minute and a half away, after a weekend ten minutes.
_START_RETRIES = 10_000
# Who watches, as the demo does, hears of it after so many: a port, say, may be taken for a moment.
_FAILED_STARTS = 3


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process. Lower `priority` starts earlier and stops later.

    `environment` is added to that of gputab itself and may hold tokens: the configuration is readable by its
    owner only.
    """

    name: str
    command: Sequence[str]
    priority: int
    environment: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """A running supervisord with its programs; leaving the `with` block stops every one of them."""

    def __init__(self, programs: Sequence[Program], folder: Path, clock: Clock) -> None:
        """Start supervisord; its programs wait for `start`. Logs go to `folder`, one file a program."""
        self._folder = folder
        self._clock = clock
        # By program, when it was started without success since it last ran.
        self._failed: dict[str, set[int]] = defaultdict(set)
        # A socket's path may have 107 bytes; a checkout's may be longer.
        self._socket_folder = Path(tempfile.mkdtemp(prefix="gputab-"))
        self._socket = self._socket_folder / "supervisor.sock"
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "supervisord.conf"
        config.touch(mode=0o600)
        config.write_text(configuration(programs, folder, self._socket), "utf-8")
        command = [sys.executable, "-m", "supervisor.supervisord", "--nodaemon", "--configuration", str(config)]
        self._child = Child(command, log=folder / "supervisord.out")
        self._transport = SupervisorTransport(None, None, f"unix://{self._socket}")
        self._rpc: Any = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=self._transport).supervisor
        try:
            self._child.wait_until(self._answers, timeout_s=_START_TIMEOUT_S, clock=clock)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, name: str, *, ready: Callable[[], bool] | None = None) -> None:
        """Start a program and wait until `ready`; UnavailableError, naming its log, where it does not come up."""
        try:
            self._call(self._rpc.startProcess, name, False)
        except UnavailableError as error:
            # One that ends within the call is told as an error of the call, and tried again like any other.
            if getattr(error.__cause__, "faultCode", None) != Faults.SPAWN_ERROR:
                raise
        deadline_s = self._clock.monotonic_s() + _START_TIMEOUT_S
        while True:
            self.check()
            if ready is None or ready():
                return
            if self._clock.monotonic_s() > deadline_s:
                raise UnavailableError(f"cannot start {name!r} in {_START_TIMEOUT_S:g} s: see {str(self._log(name))!r}")
            self._clock.sleep_s(0.05)

    def stop_program(self, name: str) -> None:
        """Stop one program in good order and wait for it."""
        self._call(self._rpc.stopProcess, name)

    def check(self) -> None:
        """Raise UnavailableError, with its last words, where a program dies at each start, or supervisord has ended.

        To be called once a second at least, so that no start is overlooked.
        """
        for info in self._call(self._rpc.getAllProcessInfo):
            name, state = info["name"], info["statename"]
            if state == "RUNNING":
                self._failed[name].clear()
            elif state in ("BACKOFF", "FATAL", "UNKNOWN"):
                self._failed[name].add(info["start"])
            if len(self._failed[name]) >= _FAILED_STARTS or state in ("FATAL", "UNKNOWN"):
                said = last_line(self._log(name)) or info["spawnerr"] or info["description"]
                raise UnavailableError(f"cannot keep {name!r} running ({said}): see {str(self._log(name))!r}")

    def stop(self) -> None:
        """Stop every program, last started first, then supervisord; harmless when that is done already."""
        self._transport.close()
        self._child.stop(grace_s=4 * _STOP_WAIT_S)
        shutil.rmtree(self._socket_folder, ignore_errors=True)

    def _call(self, method: Callable[..., Any], *arguments: object) -> Any:
        try:
            return method(*arguments)
        except (OSError, xmlrpc.client.Error) as error:
            log = str(self._folder / "supervisord.log")
            raise UnavailableError(f"cannot reach the supervisor: {error}; see {log!r}") from error

    def _answers(self) -> bool:
        """Whether supervisord takes calls; its socket is there a moment before."""
        if not self._socket.exists():
            return False
        try:
            self._rpc.getState()
        except OSError:
            # It would keep the connection that failed.
            self._transport.close()
            return False
        return True

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def configuration(programs: Sequence[Program], folder: Path, socket: Path) -> str:
    """The text of supervisord.conf (Supervisor's manual, "Configuration File")."""
    # supervisord starts each program in a session of its own; setpriv ends it when supervisord is killed outright.
    setpriv = shutil.which("setpriv")
    tie = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    sections = [_HEAD.format(socket=socket, folder=folder)]
    for program in programs:
        environment = ",".join(_quoted(key, value) for key, value in program.environment.items())
        sections.append(
            f"[program:{program.name}]\n"
            f"command={_plain(shlex.join([*tie, *program.command]))}\n"
            f"environment={environment}\n"
            f"priority={program.priority}\n"
            f"autostart=false\nautorestart=true\nstartsecs={_START_S}\nstartretries={_START_RETRIES}\n"
            f"stopsignal=TERM\nstopasgroup=true\nkillasgroup=true\nstopwaitsecs={_STOP_WAIT_S}\n"
            f"redirect_stderr=true\nstdout_logfile={folder / f'{program.name}.log'}\nstdout_logfile_maxbytes=0"
        )
    return "\n\n".join(sections) + "\n"


def _quoted(key: str, value: str) -> str:
    if '"' in value or "\n" in value:
        raise InputError(f"cannot hand {key} to a supervised program: it holds a quote or a line break; remove it")
    return f'{key}="{_plain(value)}"'


def _plain(value: str) -> str:
    """supervisord expands %(name)s in values; a percent sign of ours means itself."""
    return value.replace("%", "%%")
