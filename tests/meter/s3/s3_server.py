"""An S3 server of a test's own, on loopback: it checks signatures, and knows one person, who may do anything there."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config

from machine.process import Child, free_port
from tests.victoriametrics_server import until_healthy

# What it takes to make that person: until then nobody could sign.
_UNSIGNED = 3


@dataclass(frozen=True)
class S3Server:
    """Where it is, and who may use it."""

    url: str
    key: str
    secret: str

    @property
    def environment(self) -> dict[str, str]:
        """What Amazon's tools read of it, and that they look nowhere else."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def with_person(self, name: str, *actions: str) -> "S3Server":
        """The same server for another person, who may do these actions and nothing else."""
        people = self.client("iam")
        people.create_user(UserName=name)
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        people.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=policy)
        made = people.create_access_key(UserName=name)["AccessKey"]
        return S3Server(self.url, made["AccessKeyId"], made["SecretAccessKey"])

    def client(self, service: str = "s3") -> Any:
        """The library's own client."""
        return botocore.session.Session().create_client(
            service,
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=Config(retries={"total_max_attempts": 1}),
        )


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server that answers, with its log in `folder`; what it keeps is gone with it."""
    port = free_port()
    unsigned = ["env", f"INITIAL_NO_AUTH_ACTION_COUNT={_UNSIGNED}"]
    words = [*unsigned, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with until_healthy(Child(words, log=folder / "log"), f"{url}/moto-api/"):
        yield S3Server(url, "nobody", "yet").with_person("meter", "*")
