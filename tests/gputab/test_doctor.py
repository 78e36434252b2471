"""`gputab doctor`: what a node can measure and why not the rest, over the fake driver and with no driver at all."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pynvml
import pytest

from collector.capabilities import CAPABILITIES
from collector.owners.places import place_of
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_SM_ACTIVE, OWNER_MEMORY
from domain.units import MIB
from gputab.doctor.clock_sync import clock_sync
from gputab.doctor.findings import Verdict
from gputab.doctor.services import dcgm_findings
from machine.process import free_port
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.models import A100, H100, RTX_4090

Doctor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def allocator() -> Iterator[str]:
    """One that answers, and knows the token `good` of a node."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get("Authorization") == "Bearer good"
            self.send_response(200 if self.path == "/healthz" else 403 if is_known else 401)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def doctor(tmp_path: Path, victoriametrics_url: str, allocator: str) -> Doctor:
    """Runs it on a node where all is well, but for what a test says."""

    def ask(*words: str, driver: FakeDriver | None = None, **settings: str) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUTAB_")}
        environment |= {
            "GPUTAB_VICTORIAMETRICS_URL": victoriametrics_url,
            "GPUTAB_ALLOCATOR_URL": allocator,
            "GPUTAB_TOKEN": "good",
            "GPUTAB_DATA_DIR": str(tmp_path / "data"),
            "GPUTAB_METRICS_PORT": str(free_port()),
            **{f"GPUTAB_{name.upper()}": value for name, value in settings.items()},
            **({} if driver is None else driver.env()),
        }
        command = [sys.executable, "-m", "gputab", "doctor", "--node", "node-1", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return ask


def told(doctor: Doctor, driver: FakeDriver | None = None, **settings: str) -> Any:
    """What it says as JSON."""
    return json.loads(doctor("--format", "json", driver=driver, **settings).stdout)


def finding(diagnosis: Any, what: str) -> dict[str, str]:
    """The one that is about this."""
    (found,) = [each for each in diagnosis["findings"] if each["what"] == what]
    return dict(found)


def series(device: Any) -> dict[str, Any]:
    """What it says of each series of a device."""
    return {each["series"]: each for each in device["series"]}


def test_a_node_where_all_is_well_needs_no_mending(doctor: Doctor, driver: FakeDriver) -> None:
    # Without a process the driver itself may be at work, which is no use of the card.
    driver.process(driver.card(0, model=H100, busy_percent=50, used=3_072 * MIB), os.getpid(), 1_024 * MIB)
    done = doctor("--format", "json", driver=driver)
    diagnosis = json.loads(done.stdout)

    to_mend = [each for each in diagnosis["findings"] if each["verdict"] == "mend"]
    assert (to_mend, done.returncode, done.stderr) == ([], 0, "")
    assert diagnosis["is_well"]
    (device,) = diagnosis["devices"]
    assert series(device)[GPU_MEMORY_USED.name]["value"] == 3_072 * MIB
    assert series(device)[GPU_BUSY.name]["value"] == 0.5
    assert device["used_bytes"] == 3_072 * MIB
    assert finding(diagnosis, "driver")["said"].startswith("590.48.01, NVML 13.590.48.01, ")
    assert str(driver.path) in finding(diagnosis, "driver")["said"]
    assert finding(diagnosis, "node token")["verdict"] == "good"
    assert driver.opened().inits == 0, "it lets go of the driver"


def test_each_card_says_every_series_or_why_not(doctor: Doctor, driver: FakeDriver) -> None:
    """M5: one node, a 4090 and an A100 with an instance; each has its own reasons."""
    driver.card(0, model=RTX_4090)
    mig = driver.card(1, model=A100, mig_mode=1)
    instance = driver.create_instance(mig, "2g.20gb")
    diagnosis = told(doctor, driver)

    assert [(each["gpu_uuid"], each["mig_uuid"]) for each in diagnosis["devices"]] == [
        ("GPU-00000000-0000-0000-0000-000000000000", None),
        (mig, None),
        (mig, instance),
    ]
    for device in diagnosis["devices"]:
        for each in device["series"]:
            assert (each["value"] is not None or each["parts"] > 0) is not bool(each["reason"]), each
        assert {each["series"] for each in device["series"]} <= {each.name for each in CAPABILITIES}
    geforce, card, of_instance = map(series, diagnosis["devices"])
    assert geforce[GPU_SM_ACTIVE.name]["state"] == "unsupported"
    assert "GeForce Blackwell" in geforce[GPU_SM_ACTIVE.name]["reason"]
    assert geforce[GPU_BUSY.name]["value"] == 0
    assert "MIG mode" in card[GPU_BUSY.name]["reason"]
    assert card[OWNER_MEMORY.name]["reason"] == "told of each instance"
    assert of_instance[GPU_MEMORY_USED.name]["value"] is not None


def test_a_process_that_nobody_owns_is_named_with_what_it_claims(doctor: Doctor, driver: FakeDriver) -> None:
    """Its environment is shown and decides nothing."""
    uuid = driver.card(0, model=H100, used=3_072 * MIB)
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with subprocess.Popen(command, env={"SLURM_JOB_ID": "77", "SECRET": "x"}) as process:
        driver.process(uuid, process.pid, 1_024 * MIB)
        diagnosis = told(doctor, driver)
        process.kill()
    (device,) = diagnosis["devices"]
    if any(finding(diagnosis, f"{kind} namespace")["verdict"] == "mend" for kind in ("PID", "cgroup")):
        pytest.skip("these tests run outside of the host's PID or cgroup namespace")
    assert (device["used_bytes"], device["proved_bytes"]) == (3_072 * MIB, 0)
    (shown,) = device["processes"]
    assert shown.pop("place") == str(place_of((Path("/proc/self/cgroup")).read_text()))
    unproved = {"owner": None, "sm_percent": None, "hints": {"SLURM_JOB_ID": "77"}}
    assert shown == {"pid": process.pid, "used_bytes": 1_024 * MIB, **unproved}


def test_what_the_driver_refuses_is_to_be_mended_and_named_once(doctor: Doctor, driver: FakeDriver) -> None:
    driver.card(0, model=H100)
    for call in ("nvmlGpmSampleGet", "nvmlDeviceGetEncoderUtilization"):
        driver.fault(pynvml.NVML_ERROR_NO_PERMISSION, call)
    done = doctor("--format", "json", driver=driver)
    diagnosis = json.loads(done.stdout)

    assert done.returncode == 1
    found = finding(diagnosis, "card 0")
    assert found["verdict"] == "mend"
    assert "as root" in found["remedy"]
    refused = [each for each in diagnosis["devices"][0]["series"] if each["state"] == "no_permission"]
    assert found["said"].startswith(f"no {refused[0]['series']} and {len(refused) - 1} more: ")
    assert GPU_SM_ACTIVE.name in {each["series"] for each in refused}


def test_a_card_that_hangs_costs_the_others_nothing(doctor: Doctor, driver: FakeDriver) -> None:
    """L4: it is said, and the other is examined."""
    hanging = driver.card(0, model=H100)
    driver.card(1, model=H100)
    driver.fault(0, "nvmlDeviceGetTemperature", hanging, hang=True)
    diagnosis = told(doctor, driver)
    assert "has not answered" in finding(diagnosis, "card 0")["said"]
    assert [device["index"] for device in diagnosis["devices"]] == [1]


def test_a_card_in_need_of_persistence_mode_is_noted(doctor: Doctor, driver: FakeDriver) -> None:
    """L11: off is no fault, but costs counters."""
    driver.card(0, model=H100)
    driver.card(1, model=H100, persistence_mode=0)
    found = finding(told(doctor, driver), "persistence mode")
    assert found["verdict"] == "note"
    assert "card 1:" in found["said"]


def test_no_driver_is_said_in_clear_words_and_the_rest_is_looked_at(doctor: Doctor) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    done = doctor()
    assert done.returncode == 1
    words = " ".join(done.stdout.split())
    assert "cannot reach the NVIDIA driver" in words
    assert "gputab demo" in words
    assert "would keep every second as it is" in words
    assert done.stdout.splitlines()[-1] == "no card is measured"


def test_a_driver_of_another_version_than_its_library_is_to_be_mended(doctor: Doctor, driver: FakeDriver) -> None:
    driver.card(0, model=H100)
    driver.unload(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    found = finding(told(doctor, driver), "driver")
    assert "LIB_RM_VERSION_MISMATCH" in found["said"]
    assert "reboot" in found["remedy"]


def test_services_that_are_away_are_to_be_mended_each_with_its_remedy(doctor: Doctor, driver: FakeDriver) -> None:
    driver.card(0, model=H100)
    away = f"http://127.0.0.1:{free_port()}"
    diagnosis = told(doctor, driver, victoriametrics_url=away, allocator_url=away)
    assert finding(diagnosis, "store")["remedy"] == "start it, or set 'victoriametrics_url'"
    assert finding(diagnosis, "allocator")["remedy"] == "start it, or set 'allocator_url'"
    assert not diagnosis["is_well"]


def test_a_token_that_the_allocator_does_not_know_is_to_be_mended_and_never_shown(
    doctor: Doctor, driver: FakeDriver
) -> None:
    driver.card(0, model=H100)
    done = doctor("--format", "json", driver=driver, token="sesame")
    assert finding(json.loads(done.stdout), "node token")["verdict"] == "mend"
    assert "sesame" not in done.stdout + done.stderr


def test_a_node_without_a_token_reports_to_nobody_which_is_no_fault(doctor: Doctor, driver: FakeDriver) -> None:
    driver.card(0, model=H100)
    diagnosis = told(doctor, driver, token="", allocator_url=f"http://127.0.0.1:{free_port()}")
    assert finding(diagnosis, "allocator")["verdict"] == "note"
    assert diagnosis["is_well"]


def test_a_node_without_a_name_is_one_line(doctor: Doctor) -> None:
    """As where a script's variable is empty: it is not taken for this machine's name."""
    done = doctor("--node", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot use '' as a node" in done.stderr


def test_people_get_a_table_that_fits_a_terminal(doctor: Doctor, driver: FakeDriver) -> None:
    driver.card(0, model=RTX_4090, busy_percent=25, used=3_072 * MIB)
    done = doctor(driver=driver)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.split()[:2] == [GPU_MEMORY_USED.name, "3.00"] for line in lines)
    assert lines[-1] == "nothing is to be mended"


def test_a_running_collector_is_told_by_its_own_page(
    doctor: Doctor, driver: FakeDriver, tmp_path: Path, victoriametrics_url: str
) -> None:
    """The queue is the collector's own: nobody else opens it."""
    driver.card(0, model=H100)
    port = str(free_port())
    environment = {
        **os.environ,
        **driver.env(),
        "GPUTAB_VICTORIAMETRICS_URL": victoriametrics_url,
        "GPUTAB_DATA_DIR": str(tmp_path / "data"),
        "GPUTAB_METRICS_PORT": port,
    }
    command = [sys.executable, "-m", "gputab", "collect", "--node", "node-1"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as collector:
        try:
            for _ in range(60):
                diagnosis = told(doctor, driver, metrics_port=port)
                if finding(diagnosis, "collector")["verdict"] == "good":
                    break
        finally:
            collector.terminate()
    assert "samples, " in finding(diagnosis, "collector")["said"]
    assert finding(diagnosis, "coverage")["verdict"] == "good"
    assert "seconds wait" in finding(diagnosis, "queue")["said"]
    assert driver.opened().inits == 0


def test_a_host_engine_is_found_and_its_bindings_are_asked_for(tmp_path: Path) -> None:
    none = f"http://127.0.0.1:{free_port()}/metrics"
    with socket.create_server(("127.0.0.1", 0)) as engine, httpx.Client(trust_env=False) as client:
        place = "127.0.0.1", int(engine.getsockname()[1])
        (without,) = dcgm_findings(client, tmp_path, none, place)
        (tmp_path / "dcgm_agent.py").touch()
        (found,) = dcgm_findings(client, tmp_path, none, place)
    with httpx.Client(trust_env=False) as client:
        (absent,) = dcgm_findings(client, tmp_path, none, place)
    assert (without.verdict, "dcgm_bindings" in without.remedy) == (Verdict.NOTE, True)
    assert (found.verdict, found.said) == (Verdict.GOOD, f"a host engine answers at 127.0.0.1:{place[1]}")
    assert absent.verdict is Verdict.NOTE
    assert "none answers" in absent.said


def test_what_the_kernel_says_of_its_clock_is_asked() -> None:
    """adjtimex answers whoever asks; whether something keeps the clock right here is not for a test to say."""
    told = clock_sync()
    assert told is not None
    assert 0 <= told.error_seconds < 1_000
