"""Packages of other makers, fetched once into `.cache/peers`; what cannot be fetched is told and skipped."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["debian_files", "npm_packages", "python_packages"]

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "peers"
FETCH_TIMEOUT_S = 300
PIP_UNREACHABLE = (
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "timed out",
)
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


def python_packages(requirements: Path) -> Path:
    """A virtual environment of its own with what a file of requirements names; gives its folder of programs."""
    wanted = requirements.read_bytes() + sys.version.encode()
    folder = CACHE / f"{requirements.stem}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetching").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "fetched").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
            _install(requirements, folder / "bin")
            (folder / "fetched").touch()
    return folder / "bin"


def debian_files(package: str) -> Path:
    """The folder with the files of a package of Debian's, in the version that this machine would install."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip(f"apt-get and dpkg-deb are missing; {package} is a package of Debian's")
    folder = CACHE / package
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetching").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "fetched").exists():
            _download(package, folder)
            for archive in folder.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
            (folder / "fetched").touch()
    return folder


def _install(requirements: Path, programs: Path) -> None:
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
    try:
        done = subprocess.run(
            [*pip, "install", "-r", str(requirements)],
            check=False,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip did not fetch what {requirements.name} names within {FETCH_TIMEOUT_S} s")
    if any(words in done.stderr for words in PIP_UNREACHABLE):
        pytest.skip(f"pip cannot reach its index: {done.stderr.strip()[-500:]}")
    assert done.returncode == 0, done.stderr


def _download(package: str, folder: Path) -> None:
    """Get the archive of a package; where the lists of packages are missing, get those first."""
    download = ["apt-get", "-qq", "download", package]
    for command in (download, ["apt-get", "-qq", "update"], download):
        try:
            done = subprocess.run(
                command, check=False, cwd=folder, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"apt-get did not fetch {package} within {FETCH_TIMEOUT_S} s")
        if command is download and done.returncode == 0:
            return
    pytest.skip(f"apt-get cannot fetch {package}: {done.stderr.strip()[-500:]}")


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
