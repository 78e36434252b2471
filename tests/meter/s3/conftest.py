"""A bucket of an S3 server of the tests' own, in which windows keep their evidence."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from domain.errors import EvidenceError, UnavailableError
from meter.evidence.evidence_store import EvidenceStore, evidence_store
from tests.meter.s3.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server for the tests of a file."""
    with s3_server(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An empty bucket that keeps versions, which the environment leads to."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    name = f"ledger-{abs(hash(tmp_path)):x}"
    server.client().create_bucket(Bucket=name)
    server.client().put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.fixture(name="evidence_store")
def _evidence_store(bucket: str) -> EvidenceStore:
    """In the place of the folder, also for what reads windows."""
    return evidence_store(f"s3://{bucket}/gputab/evidence")


@pytest.fixture
def versions(server: S3Server, bucket: str) -> Callable[[], list[str]]:
    """The key of each version of each object in the bucket."""

    def listed() -> list[str]:
        return [each["Key"] for each in server.client().list_object_versions(Bucket=bucket).get("Versions", [])]

    return listed


@pytest.fixture
def refusal(server: S3Server) -> Callable[[Callable[[], object]], str]:
    """What is said when something fails that every file would meet with; no word of it is secret."""

    def said(act: Callable[[], object]) -> str:
        with pytest.raises(UnavailableError) as refused:
            act()
        assert not isinstance(refused.value, EvidenceError)
        text = str(refused.value)
        assert "\n" not in text
        assert not [secret for secret in (server.key, server.secret, "hunter2") if secret in text]
        return text

    return said
