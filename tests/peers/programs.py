"""Clients in Java and Go behind small programs of ours, which do what a test says line by line.

A program reads one JSON object a line and answers each with one: `seen`, or `error` with the code that the server gave.
They are built once, into `.cache/peers/`; what cannot be fetched or is not installed skips a test.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.servers import HOST, Server

__all__ = ["Program", "Refused", "connect", "go_command", "java_command", "publish", "texts"]

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "peers"
FETCH_TIMEOUT_S = 600
BUILD_TIMEOUT_S = 600
ANSWER_TIMEOUT_S = 60
CLASS_PATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"


class Refused(Exception):
    """The client raised an error; `code` is the server's response code or condition, 0 or empty if there was none."""

    def __init__(self, error: str, code: int | str) -> None:
        super().__init__(f"{error} (code {code})")
        self.code = code


class Program:
    """A running program, used as a context manager; called with a command and its fields."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(ANSWER_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            self._listener.join()
            process.stdout.close()

    def __call__(self, command: str, **fields: Any) -> Any:
        """Have something done, and give what was seen; raises `Refused`."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"do": command, **fields}) + "\n")
        process.stdin.flush()
        overdue = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
        overdue.start()
        line = process.stdout.readline()
        overdue.cancel()
        assert line, f"no answer to {command!r} {fields}; the program said:\n{''.join(self._said)}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"], answer["code"])
        return answer.get("seen")

    def kill(self) -> None:
        """End it without a warning; the server sees its connections break."""
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        """Read to the end, so that a full pipe never holds up the program."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._said.extend(lines)


def java_command(name: str = "java") -> list[str]:
    """How to run the program in Java that is in a folder of this name."""
    java, javac, maven = (_installed(tool) for tool in ("java", "javac", "mvn"))
    sources = sorted((HERE / name / "src").glob("*.java"))
    with _folder_for(name, [*sources, HERE / name / "pom.xml"]) as folder:
        class_path, built = folder / "class-path", folder / "built"
        if not built.exists():
            project = str(HERE / name / "pom.xml")
            output = f"-Dmdep.outputFile={class_path}"
            _fetch([maven, "-B", "-q", "-f", project, CLASS_PATH_GOAL, output], folder)
            libraries = class_path.read_text(encoding="utf-8")
            _build([javac, "-Xlint:all", "-Werror", "-cp", libraries, "-d", str(folder), *map(str, sources)])
            built.touch()
        libraries = class_path.read_text(encoding="utf-8")
    warnings_only = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [java, warnings_only, "-cp", f"{folder}{os.pathsep}{libraries}", "Main"]


def go_command(name: str = "go") -> list[str]:
    """How to run the program in Go that is in a folder of this name."""
    go = _installed("go")
    project = HERE / name
    with _folder_for(name, [*sorted(project.glob("*.go")), project / "go.mod", project / "go.sum"]) as folder:
        program = folder / "peer"
        if not program.exists():
            _fetch([go, "mod", "download"], project)
            _build([go, "build", "-o", str(program), "."], project)
    return [str(program)]


def _installed(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextlib.contextmanager
def _folder_for(name: str, sources: list[Path]) -> Iterator[Path]:
    """The folder of what is built from these sources, held against the other workers."""
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    folder = CACHE / f"{name}-{digest[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _fetch(command: list[str], folder: Path) -> None:
    """Get what is not ours; a registry out of reach skips the test."""
    reason = ""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        reason = f"{FETCH_TIMEOUT_S} s were not enough"
    else:
        if done.returncode:
            reason = (done.stdout + done.stderr).strip()[-500:]
    if reason:
        pytest.skip(f"cannot fetch the client's packages with {Path(command[0]).name}: {reason}")


def _build(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"


def connect(program: Program, server: Server, **fields: Any) -> None:
    """Open the program's environment on a server."""
    program("connect", **{"host": HOST, "port": server.stream_port, **fields})


def texts(start: int, end: int, word: str = "message") -> list[str]:
    return [f"{word} {number}" for number in range(start, end)]


def publish(program: Program, producer: str, bodies: list[str], **fields: Any) -> None:
    """Send, and see all of it confirmed."""
    assert program("send", to=producer, bodies=bodies, **fields) == {"confirmed": len(bodies)}
