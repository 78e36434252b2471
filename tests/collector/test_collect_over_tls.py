"""`gputab collect` to a store behind TLS that asks for a token: delivered when both are right, held when one is not."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from collector.simulation.world_file import WorldFile, load_world
from domain.series import GPU_UP
from tests.certificates import make_certificates
from tests.collector.collecting import Process, Start, wait_for_queued_seconds
from tests.collector.doors import Proxy, proxy
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.seconds import SIZE
from tests.collector.sent import samples_of_card

NODE = "sim-4090-a"
TOKEN = f"token-{uuid4().hex}"


class SafeStore:
    """The door, who vouches for it, and a collector of simulated cards that is told of both."""

    def __init__(self, door: Proxy, authority: Path, start: Start, folder: Path) -> None:
        self.door = door
        self.authority = authority
        self._start = start
        self._folder = folder
        self._world = folder / "world.jsonl"
        WorldFile.create(self._world, uuid4().int % 2**31, CLOCK)
        self.uuid = load_world(self._world).fleet.nodes[NODE][0].device.uuid

    def collect(self, token: str = TOKEN, authority: Path | None = None) -> Process:
        url = f"https://127.0.0.1:{self.door.server_port}"
        env = {"GPUTAB_VICTORIAMETRICS_TOKEN": token}
        if authority is not None:
            env["GPUTAB_VICTORIAMETRICS_CA_FILE"] = str(authority)
        return self._start("--source", "simulator", "--world", str(self._world), "--node", NODE, url=url, env=env)

    def stop(self, process: Process) -> int:
        """End the collector in good order; how many seconds wait on its disk then."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, self.log()
        queue = BatchQueue(queue_path(self._folder / "data", NODE), SIZE)
        try:
            assert (queue.refused, queue.quarantined) == (0, 0)
            return len(queue)
        finally:
            queue.close()

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob("log-*")))

    def written(self) -> bytes:
        """All that the collector has written anywhere."""
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture
def safe_store(start: Start, tmp_path: Path, victoriametrics_url: str) -> Iterator[SafeStore]:
    (tmp_path / "certificates").mkdir()
    authority, context = make_certificates(tmp_path / "certificates")
    with proxy(victoriametrics_url, context) as door:
        door.token = TOKEN
        yield SafeStore(door, authority, start, tmp_path)


def test_seconds_travel_by_tls_with_the_token_which_is_written_nowhere(
    safe_store: SafeStore, victoriametrics_url: str, tmp_path: Path
) -> None:
    """A wrong token costs nothing: what was sampled meanwhile waits, and arrives with the right one."""
    began_s = now_s()
    process = safe_store.collect(token="another", authority=safe_store.authority)
    wait_until(lambda: "store_unavailable" in safe_store.log())
    wait_for_queued_seconds(tmp_path, NODE)
    waiting = safe_store.stop(process)
    assert waiting >= 2
    assert "answers 401" in safe_store.log()
    assert "set 'victoriametrics_token'" in safe_store.log()
    assert samples_of_card(victoriametrics_url, safe_store.uuid, began_s).is_empty()

    process = safe_store.collect(authority=safe_store.authority)
    wait_until(lambda: _seconds(victoriametrics_url, safe_store.uuid, began_s) >= waiting + 2)
    assert safe_store.stop(process) == 0
    assert TOKEN.encode() not in safe_store.written()
    assert b"Bearer" not in safe_store.written()


def test_a_store_whose_certificate_nobody_vouches_for_gets_neither_a_second_nor_the_token(
    safe_store: SafeStore, victoriametrics_url: str, tmp_path: Path
) -> None:
    began_s = now_s()
    asked: list[str] = []
    safe_store.door.answers = lambda path, _body: asked.append(path)
    process = safe_store.collect()
    wait_until(lambda: "store_unavailable" in safe_store.log())
    wait_for_queued_seconds(tmp_path, NODE)
    assert safe_store.stop(process) >= 2
    assert "set 'victoriametrics_ca_file'" in safe_store.log()
    assert asked == []
    assert samples_of_card(victoriametrics_url, safe_store.uuid, began_s).is_empty()


def _seconds(url: str, uuid: str, start_s: int) -> int:
    samples = samples_of_card(url, uuid, start_s)
    return samples.filter(samples["series"] == GPU_UP.name).height
