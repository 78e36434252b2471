"""The commands: what a person types, against the real service and a real database."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from domain.errors import AccessError, CapacityError, InputError, NotFoundError, UnavailableError
from gputab.commands import alloc, allocations
from machine.process import free_port
from store.tables.capacity import grants, mig_periods

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

HEADER = "allocation,tenant,project,node,gpu_uuid,model,kind,milli_gpu,vram_mib,mig_profile,start,end\n"


def run(app: typer.Typer, *arguments: str) -> str:
    """The command's standard output; what it raises is raised."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def here(ledger: "Ledger", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and settings that point at the test's ledger."""
    for name in [name for name in os.environ if name.startswith("GPUTAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPUTAB_DATABASE_URL", ledger.url)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def person(service: "Service", hardware: "Hardware", here: Path, monkeypatch: pytest.MonkeyPatch) -> "Service":
    """acme at a terminal, with a service that has cards."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0), hardware.h100_mig("GPU-9", 1, 0))
    monkeypatch.setenv("GPUTAB_ALLOCATOR_URL", service.url)
    monkeypatch.setenv("GPUTAB_TOKEN", service.ledger.tokens["acme"])
    return service


def rows(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(alloc.app, *arguments, "--format", "json"))["rows"]
    return found


def test_a_share_is_asked_for_shown_and_released(person: "Service") -> None:
    wish = ("request", "--project", "lab", "--milli", "250", "--vram-mib", "2048", "--label", "job=7")
    (made,) = rows(*wish, "--idempotency-key", "k")
    assert (made["labels"], made["grants"][0]["milli_gpu"]) == ({"job": "7"}, 250)
    assert rows(*wish, "--idempotency-key", "k") == [made]
    assert rows("show", made["allocation"]) == rows("list") == [made]
    assert not rows("release", made["allocation"])[0]["is_open"]
    assert rows("list") == []
    assert [each["allocation"] for each in rows("list", "--state", "ended")] == [made["allocation"]]
    assert "rtx4090-24g" in run(alloc.app, "list", "--state", "all")


def test_whole_cards_and_mig_instances_are_asked_for(
    person: "Service", ledger: "Ledger", monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = rows("request", "--project", "lab", "--gpus", "1", "--sku", "rtx4090-24g")
    assert whole["grants"][0]["kind"] == "whole"
    monkeypatch.setenv("GPUTAB_TOKEN", ledger.tokens["operator"])
    run(alloc.app, "adopt", "MIG-GPU-9-0")
    assert ledger.rows(mig_periods)[-1].origin == "adopted"
    (mig,) = rows("request", "--project", "lab", "--tenant", "beta", "--mig", "1g.10gb")
    assert (mig["tenant"], mig["grants"][0]["mig_uuid"]) == ("beta", "MIG-GPU-9-0")


def test_an_operator_sees_what_is_free_of_each_card(
    person: "Service", ledger: "Ledger", monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AccessError, match="cannot "):
        run(alloc.app, "cards")
    rows("request", "--project", "lab", "--milli", "250", "--vram-mib", "2048")
    monkeypatch.setenv("GPUTAB_TOKEN", ledger.tokens["operator"])
    run(alloc.app, "adopt", "MIG-GPU-9-0")
    shown = run(alloc.app, "cards").splitlines()
    assert next(line for line in shown if "GPU-0" in line).split() == [
        *("n1", "0", "GPU-0", "rtx4090-24g", "ok", "750", "21.49", "1", "-"),
    ]
    assert next(line for line in shown if "GPU-9" in line).split()[-5:] == ["ok", "1,000", "79.65", "0", "1g.10gb"]
    assert [(each["gpu_uuid"], each["compute_units_free"]) for each in rows("cards")] == [
        ("GPU-0", 750),
        ("GPU-9", 132),
    ]
    ledger.silence("n1", 60)
    assert "ok, node silent" in run(alloc.app, "cards")


def test_a_refusal_shows_the_reason_of_each_node(person: "Service", capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CapacityError, match="cannot grant 2 whole cards"):
        alloc.request(project="lab", gpus=2)
    assert "n1: needs 2, has 1: 1 × in MIG mode" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("request", "--project", "lab"), InputError),
        (("request", "--project", "lab", "--gpus", "1", "--milli", "5"), InputError),
        (("request", "--project", "lab", "--gpus", "1", "--vram-mib", "5"), InputError),
        (("request", "--project", "lab", "--gpus", "1", "--label", "job"), InputError),
        (("request", "--project", "lab", "--gpus", "129"), InputError),
        (("request", "--project", "x" * 300, "--gpus", "1"), InputError),
        (("request", "--project", "none", "--gpus", "1"), NotFoundError),
        (("show", "al_none"), NotFoundError),
        (("list", "--cursor", "x"), InputError),
        (("adopt", "MIG-GPU-9-0"), AccessError),
    ],
)
def test_what_cannot_be_done_is_an_error_of_its_kind(
    person: "Service", ledger: "Ledger", arguments: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error, match="cannot "):
        run(alloc.app, *arguments)
    assert ledger.rows(grants) == []


def test_without_a_token_or_a_service_it_says_what_to_set(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="GPUTAB_TOKEN"):
        run(alloc.app, "list")
    monkeypatch.setenv("GPUTAB_TOKEN", "x")
    monkeypatch.setenv("GPUTAB_ALLOCATOR_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UnavailableError, match="gputab allocator"):
        run(alloc.app, "list")


def test_records_are_imported_and_exported_as_files(here: Path, ledger: "Ledger") -> None:
    file = here / "jobs.csv"
    # With a byte order mark, as spreadsheets write it.
    file.write_text(f"{HEADER}a,gamma,x,,,NVIDIA L4,whole,,0,,0,3600\n", "utf-8-sig")
    with pytest.raises(InputError, match="--create-tenants"):
        run(allocations.app, "import", str(file))
    with pytest.raises(InputError, match="--currency"):
        run(allocations.app, "import", str(file), "--create-tenants")
    for option in (("--zone", "Mars"), ("--currency", "yuan")):
        with pytest.raises(InputError, match=f"^cannot use {option[0]} '{option[1]}' where no tenants are made: give"):
            run(allocations.app, "import", str(file), *option)
    created = ("--create-tenants", "--currency", "CNY", "--zone", "Asia/Shanghai")
    result = CliRunner().invoke(allocations.app, ["import", str(file), *created, "--source", "slurm"])
    assert result.stderr.strip() == (
        "1 allocations added, 0 replaced, 0 unchanged; 1 grants, 1 of them without a device (record-only)"
    )
    out = here / "out.csv"
    run(allocations.app, "export", "--out", str(out))
    assert out.read_text("utf-8") == run(allocations.app, "export")
    assert "a,gamma,x,,,NVIDIA L4,whole,1000,0,,1970-01-01T00:00:00Z,1970-01-01T01:00:00Z" in out.read_text("utf-8")
    with pytest.raises(UnavailableError, match="cannot write"):
        run(allocations.app, "export", "--out", str(here / "none" / "out.csv"))


def test_an_export_takes_the_place_of_the_file_only_when_it_is_whole(here: Path) -> None:
    out = here / "out.csv"
    out.write_text("the export of yesterday", "utf-8")
    link = here / "latest.csv"
    link.symlink_to(out)

    def fail() -> None:
        with allocations.replacing(link) as target:
            target.write("half of a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert out.read_text("utf-8") == "the export of yesterday"
    run(allocations.app, "export", "--out", str(link))
    assert link.is_symlink()
    assert out.read_text("utf-8").startswith("allocation,tenant")
    assert sorted(path.name for path in here.glob("*.csv*")) == ["latest.csv", "out.csv"]


def test_an_export_into_a_pipe_goes_through_it(here: Path, ledger: "Ledger") -> None:
    pipe = here / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        run(allocations.app, "export", "--out", str(pipe))
        written, _ = reader.communicate(timeout=20)
    assert written == run(allocations.app, "export")
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read '.*jobs.csv': No such file or directory; check the path"),
        (b"\xff\xfe\x00", "cannot read '.*jobs.csv': 'utf-8' codec .*; give a CSV file in UTF-8"),
        (b"", "cannot find the column 'allocation': write a header"),
        (f"{HEADER}a".replace(",", ";").encode(), "cannot use the column 'allocation;tenant.*: the columns are"),
        (HEADER.encode() + b'"' + b"a" * 200_000, "cannot read line 2 as CSV: field larger .*; save the file as plain"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(here: Path, content: bytes | None, said: str) -> None:
    file = here / "jobs.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=f"^{said}"):
        run(allocations.app, "import", str(file))


def test_the_service_runs_until_it_is_stopped(here: Path, ledger: "Ledger") -> None:
    port = free_port()
    program = f"from gputab.commands.serve import serve; serve(host='127.0.0.1', port={port})"
    environment = {**os.environ, "GPUTAB_VICTORIAMETRICS_URL": f"http://127.0.0.1:{free_port()}"}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE) as process:
        try:
            headers = {"Authorization": f"Bearer {ledger.tokens['operator']}"}
            answer = _first_answer(f"http://127.0.0.1:{port}/v1/devices", headers)
            assert answer.json() == {"devices": []}
            assert "server" not in answer.headers
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
    assert ledger.tokens["operator"].encode() not in errors
    assert b"Traceback" not in errors
    assert f"listening on http://127.0.0.1:{port}\n".encode() in errors


def test_a_port_that_is_in_use_is_said_before_anything_is_begun(here: Path) -> None:
    """Nothing is begun: the database that is named is not even there."""
    environment = {**os.environ, "GPUTAB_DATABASE_URL": f"sqlite:///{here / 'none' / 'x.db'}"}

    def serve(port: int) -> str:
        program = f"import sys; from gputab.cli import run; sys.exit(run(['allocator', '--port', '{port}']))"
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        return done.stderr.strip()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve(port) == f"gputab: cannot listen on 127.0.0.1:{port}: in use; give --port"
    assert serve(0).endswith("or make it: run `gputab db upgrade`")
    assert not (here / "none").exists()


def test_listening_beyond_this_machine_is_warned_of(here: Path) -> None:
    """The address is one for documentation, which no machine has, so nothing is opened."""
    program = "from gputab.commands.serve import serve; serve(host='192.0.2.1', port=0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "warning: listening on 192.0.2.1, without encryption" in done.stderr
    assert done.returncode != 0


def _first_answer(url: str, headers: dict[str, str]) -> httpx.Response:
    deadline_s = time.monotonic() + 30
    while True:
        try:
            return httpx.get(url, headers=headers)
        except httpx.TransportError:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
