"""Evidence in a bucket: the same as in a folder, and what is said where the bucket, or the way to it, is not there."""

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from domain.errors import EvidenceError
from machine.process import free_port
from meter.evidence.bucket_store import BucketStore
from meter.evidence.evidence_file import read_evidence, write_evidence
from meter.evidence.evidence_store import EvidenceStore, FolderStore, evidence_store
from tests.meter.fixture_types import Observe, UseOf
from tests.meter.s3.s3_server import S3Server

PATH = "2026-03-01/10/rack%2Fn1.r1.parquet"
Versions = Callable[[], list[str]]
Refusal = Callable[[Callable[[], object]], str]


def test_a_url_makes_a_bucket_and_a_path_a_folder(tmp_path: Path) -> None:
    assert isinstance(evidence_store("s3://ledger"), BucketStore)
    assert isinstance(evidence_store(tmp_path), FolderStore)
    assert evidence_store("s3://ledger").place("a/b") == "s3://ledger/a/b"
    assert evidence_store("s3://ledger/gputab").place("a/b") == "s3://ledger/gputab/a/b"


def test_what_was_written_is_what_is_read(
    evidence_store: EvidenceStore, bucket: str, server: S3Server, observe: Observe, use_of: UseOf, versions: Versions
) -> None:
    evidence = observe([*use_of(range(100)), *use_of(range(50), owner="alloc:é/1")], heard=[(0, 9)])
    path, size_bytes = write_evidence(evidence, evidence_store, "2026-03-01/10/rack%2Fn1.r1")
    back = read_evidence(evidence_store, path, "n1", evidence.period, evidence.digest)
    assert back.runs.equals(evidence.runs)
    assert back.digest == evidence.digest
    assert versions() == [f"gputab/evidence/{path}"]
    found = server.client().head_object(Bucket=bucket, Key=f"gputab/evidence/{path}")
    assert found["ContentLength"] == size_bytes


def test_without_a_prefix_it_lies_at_the_top(bucket: str, versions: Versions) -> None:
    assert evidence_store(f"s3://{bucket}").write(PATH, b"runs") == 4
    assert versions() == [PATH]


def test_what_is_there_already_is_left_and_what_was_damaged_is_mended(
    evidence_store: EvidenceStore, versions: Versions
) -> None:
    """A bucket that keeps versions would be paid for each of them."""
    assert evidence_store.write(PATH, b"ruin") == 4
    for _ in range(3):
        assert evidence_store.write(PATH, b"runs") == 4
    assert versions() == [f"gputab/evidence/{PATH}"] * 2
    assert evidence_store.read(PATH) == b"runs"


def test_evidence_that_is_gone_or_damaged_costs_its_window_alone(
    evidence_store: EvidenceStore, bucket: str, server: S3Server, observe: Observe, use_of: UseOf
) -> None:
    evidence = observe(use_of(range(50)))
    path, _ = write_evidence(evidence, evidence_store, "n1")
    place = {"Bucket": bucket, "Key": f"gputab/evidence/{path}"}
    content = evidence_store.read(path)
    server.client().put_object(**place, Body=content[:-20])
    with pytest.raises(EvidenceError, match=rf"^cannot read .* 's3://{bucket}/.*parquet': it is damaged; .*backup$"):
        read_evidence(evidence_store, path, "n1", evidence.period, evidence.digest)
    server.client().delete_object(**place)
    with pytest.raises(EvidenceError, match=rf"^cannot read .* 's3://{bucket}/.*parquet': it is gone; .*backup$"):
        read_evidence(evidence_store, path, "n1", evidence.period, evidence.digest)


def test_a_bucket_that_does_not_exist_is_told_from_evidence_that_is_gone(bucket: str, refusal: Refusal) -> None:
    """Else a slip in a setting would name every window as lost."""
    store = evidence_store(f"s3://{bucket}x/gputab")
    for act in (lambda: store.read(PATH), lambda: store.write(PATH, b"")):
        said = refusal(act)
        assert f"'s3://{bucket}x/gputab/{PATH}': there is no bucket '{bucket}x'; create it, or mend" in said


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "hunter2"}, "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "hunter2"}, "InvalidAccessKeyId"),
    ],
)
def test_credentials_that_are_wrong_are_said_and_not_shown(
    bucket: str, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], code: str
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    store = evidence_store(f"s3://{bucket}/gputab")
    for act in (lambda: store.read(PATH), lambda: store.write(PATH, b"")):
        said = refusal(act)
        assert f"'s3://{bucket}/gputab/{PATH}': the server answers '{code}'; mend AWS_ACCESS_KEY_ID" in said


def test_who_may_only_write_can_write(
    bucket: str, server: S3Server, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, versions: Versions
) -> None:
    """A server says of what is not there, to whom may not list, that he may not read it."""
    for name, value in server.with_person("writer", "s3:PutObject").environment.items():
        monkeypatch.setenv(name, value)
    store = evidence_store(f"s3://{bucket}")
    assert store.write(PATH, b"runs") == 4
    assert versions() == [PATH]
    assert "the server answers 'AccessDenied'; mend" in refusal(lambda: store.read(PATH))


@pytest.mark.parametrize("missing", [["AWS_SECRET_ACCESS_KEY"], ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]])
def test_credentials_that_are_missing_are_asked_for_until_they_are_there(
    bucket: str, server: S3Server, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, missing: list[str]
) -> None:
    store = evidence_store(f"s3://{bucket}/gputab")
    for name in missing:
        monkeypatch.delenv(name)
    said = refusal(lambda: store.write(PATH, b""))
    assert "there are no credentials to be had" in said
    assert "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said
    for name in missing:
        monkeypatch.setenv(name, server.environment[name])
    assert store.write(PATH, b"runs") == 4


def test_credentials_may_be_in_a_file(
    bucket: str, server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: Refusal
) -> None:
    """As `aws configure` writes it, under the name that AWS_PROFILE says."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text(f"[meter]\naws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n", "utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "meter")
    assert evidence_store(f"s3://{bucket}").write(PATH, b"runs") == 4
    monkeypatch.setenv("AWS_PROFILE", "another")
    said = refusal(lambda: evidence_store(f"s3://{bucket}").read(PATH))
    assert said.endswith("(ProfileNotFound); mend the AWS_* variables and the files in ~/.aws")


def test_a_server_that_is_down_is_named_without_what_may_be_secret(
    bucket: str, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://meter:hunter2@127.0.0.1:{port}/s3")
    store = evidence_store(f"s3://{bucket}")
    for act in (lambda: store.read(PATH), lambda: store.write(PATH, b"")):
        assert f"'http://127.0.0.1:{port}' does not answer (EndpointConnectionError); start it, or mend" in refusal(act)


def test_a_url_of_the_server_that_is_none_is_refused(
    bucket: str, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "meter:hunter2@storage")
    said = refusal(lambda: evidence_store(f"s3://{bucket}").read(PATH))
    assert "what is set for AWS cannot be used (ValueError); mend the AWS_* variables" in said


@pytest.mark.timeout(60)
def test_a_server_that_says_nothing_is_not_waited_for_without_end(
    bucket: str, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections and is silent; the library's own patience is five minutes."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "does not answer (ReadTimeoutError)" in refusal(lambda: evidence_store(f"s3://{bucket}").read(PATH))
