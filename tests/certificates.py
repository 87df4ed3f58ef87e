"""Certificates for tests with TLS, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["make_keys"]

HOST = "127.0.0.1"
_NEW_KEY = ["-newkey", "rsa:2048", "-nodes"]
_SIGNED = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]


def make_keys(folder: Path, user: str) -> None:
    """An authority, a server that it signed for, and a client of this name: `NAME.pem` and `NAME.key` each."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, so there are no certificates to try TLS with")
    authority = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority"]
    _openssl(folder, "req", "-x509", *_NEW_KEY, "-days", "2", *authority)
    (folder / "names").write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n", encoding="ascii")
    for name, subject in (("server", "/CN=localhost"), ("client", f"/CN={user}")):
        _openssl(folder, "req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", "asked", "-subj", subject)
        _openssl(folder, "x509", "-req", "-in", "asked", "-out", f"{name}.pem", *_SIGNED)


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
