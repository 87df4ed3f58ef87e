"""Packages of other makers, fetched once into `.cache/peers`; what cannot be fetched is told and skipped."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["npm_packages"]

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "peers"
FETCH_TIMEOUT_S = 300
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "E503")


def npm_packages(definition: Path) -> Path:
    """The folder with the `node_modules` that `package-lock.json` in this folder names, byte for byte."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are missing (Debian, Ubuntu: apt-get install nodejs npm)")
    lock = (definition / "package-lock.json").read_bytes()
    folder = CACHE / f"{definition.name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetching").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "fetched").exists():
            _fetch(definition, folder)
            (folder / "fetched").touch()
    return folder


def _fetch(definition: Path, folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(definition / name, folder / name)
    # Scripts of packages are not run: nothing here needs what they make, and they may fetch from anywhere.
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
    environment = {**os.environ, "npm_config_fetch_retries": "1"}
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not fetch {definition.name} within {FETCH_TIMEOUT_S} s")
    if any(code in done.stderr for code in UNREACHABLE):
        pytest.skip(f"npm cannot reach its registry: {done.stderr.strip()[-500:]}")
    assert done.returncode == 0, done.stderr
