"""Evidence in a bucket of S3, or of any server that speaks its protocol."""

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as UnreachableError

from domain.errors import EvidenceError, UnavailableError
from domain.urls import without_credentials

# A server that does not answer costs ten seconds, and one that cannot be reached less: a window is lent for twenty.
_CONFIG = Config(
    connect_timeout=3,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 2},
    # The signature covers the content, so that what was damaged on its way is refused. Every server checks it, while
    # the newer checksums, which the library would send on its own, are unknown to many.
    s3={"payload_signing_enabled": True},
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)
_NO_ANSWER = (UnreachableError, HTTPClientError, IncompleteReadError)
_FAILURES = (ClientError, BotoCoreError, OSError, ValueError)
_GONE = {"NoSuchKey": "it is gone", "InvalidObjectState": "it was moved to an archive"}
_CREDENTIALS_CODES = {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"}
_CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile that AWS_PROFILE names"


class BucketStore:
    """`EvidenceStore` in a bucket: one request writes a file, whole or not at all, and has it stored when it returns.

    Server, region and credentials come from where Amazon's own tools take them: variables AWS_*, files in ~/.aws, the
    machine's role. No message repeats what is found there, but for the server's address.
    """

    def __init__(self, url: str) -> None:
        """`url` is s3://BUCKET or s3://BUCKET/PREFIX."""
        self._bucket, _, prefix = url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def write(self, path: str, content: bytes) -> int:
        """Raises UnavailableError as well where there is no such bucket, or it is not for these credentials."""
        try:
            if not self._holds(path, content):
                self._client.put_object(Bucket=self._bucket, Key=self._prefix + path, Body=content)
        except _FAILURES as error:
            raise self._refusal("write evidence to", path, error) from error
        return len(content)

    def read(self, path: str) -> bytes:
        """Raises EvidenceError for this file alone, UnavailableError for what every file would meet with."""
        try:
            return self._get(path)
        except _FAILURES as error:
            if (code := _code(error)) in _GONE:
                raise EvidenceError(
                    f"cannot read the evidence {self.place(path)!r}: {_GONE[code]}; restore it from a backup"
                ) from error
            raise self._refusal("read the evidence", path, error) from error

    def place(self, path: str) -> str:
        """The URL of the file."""
        return f"s3://{self._bucket}/{self._prefix}{path}"

    @cached_property
    def _client(self) -> Any:
        # At first use: most commands read no evidence, and must not fail for want of credentials.
        session = botocore.session.get_session()
        # For the session, so that it bounds the asking for credentials as well.
        session.set_default_client_config(_CONFIG)
        if session.get_credentials() is None:
            # Said here, so that the next use looks for them again.
            raise NoCredentialsError
        return session.create_client("s3")

    def _get(self, path: str) -> bytes:
        found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + path)
        content: bytes = found["Body"].read()
        return content

    def _holds(self, path: str, content: bytes) -> bool:
        """Whether the same is there: a second version of it would cost a bucket that keeps versions."""
        try:
            return self._get(path) == content
        except ClientError as error:
            # Who may not list a bucket is told of what is not in it that he may not read it.
            if _code(error) in {*_GONE, "AccessDenied"}:
                return False
            raise

    def _refusal(self, verb: str, path: str, error: Exception) -> UnavailableError:
        why, remedy = self._diagnosis(error)
        return UnavailableError(f"cannot {verb} {self.place(path)!r}: {why}; {remedy}")

    def _diagnosis(self, error: Exception) -> tuple[str, str]:
        """Why it failed and what to do, in words of ours: those of others may hold what is secret."""
        code, kind = _code(error), type(error).__name__
        if code == "NoSuchBucket":
            return f"there is no bucket {self._bucket!r}", "create it, or mend evidence_dir and AWS_ENDPOINT_URL"
        if code in _CREDENTIALS_CODES:
            return f"the server answers {code!r}", f"mend {_CREDENTIALS}, or let them get, put and list there"
        if code is not None:
            return f"the server answers {code!r}", "see AWS_ENDPOINT_URL and AWS_DEFAULT_REGION, or try again later"
        if isinstance(error, (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)):
            return f"there are no credentials to be had ({kind})", f"set {_CREDENTIALS}"
        if isinstance(error, _NO_ANSWER):
            return f"{_server(error)} does not answer ({kind})", "start it, or mend AWS_ENDPOINT_URL"
        return f"what is set for AWS cannot be used ({kind})", "mend the AWS_* variables and the files in ~/.aws"


def _code(error: Exception) -> str | None:
    """What the server said, in its protocol's words; None where no server said anything."""
    return str(error.response["Error"]["Code"])[:64] if isinstance(error, ClientError) else None


def _server(error: BotoCoreError) -> str:
    url = urlsplit(without_credentials(str(error.kwargs.get("endpoint_url", ""))))
    return repr(f"{url.scheme}://{url.netloc}") if url.netloc else "the server"
