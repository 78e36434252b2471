"""Certificates of a test's own, made by openssl: an authority, and a server on loopback that descends from it."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The authority's certificate as a PEM file, and what a server on 127.0.0.1 is to speak TLS by.

    Skips the test where there is no openssl.
    """
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl on PATH to make certificates with")

    def openssl(*words: str) -> None:
        subprocess.run([program, *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    extensions = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority", *extensions)
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=store")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return folder / "ca.pem", context
