"""What tests with clients of other makers share: a server for many tests, one that may be stopped, and names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import make_keys
from tests.peers.programs import Program, connect, go_command, java_command
from tests.peers.servers import USER, Server

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests of a worker."""
    started = Server(tmp_path_factory.mktemp("server") / "data")
    started.start()
    yield started
    started.end()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may stop."""
    started = Server(tmp_path / "data")
    started.start()
    yield started
    started.end()


@pytest.fixture
def stream() -> str:
    """A name that no other test has."""
    return f"stream-{next(NUMBERS)}"


@pytest.fixture(params=[pytest.param(java_command, id="java"), pytest.param(go_command, id="go")])
def command(request: pytest.FixtureRequest) -> list[str]:
    """How to run the program with one of the clients."""
    found: list[str] = request.param()
    return found


@pytest.fixture
def peer(command: list[str], server: Server) -> Iterator[Program]:
    """The program with its environment open."""
    with Program(command) as program:
        connect(program, server)
        yield program


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server that it signed for, and a client of the name `guest`: `NAME.pem` and `NAME.key` each."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, USER)
    return folder


@pytest.fixture(scope="session")
def tls_server(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with TLS on ports of its own, which takes client certificates."""
    folder = tmp_path_factory.mktemp("tls")
    settings = {"certificate": keys / "server.pem", "key": keys / "server.key", "client_ca": keys / "ca.pem"}
    lines = [f'tls_{name}_file = "{file}"' for name, file in settings.items()]
    (folder / "headwater.toml").write_text("\n".join(lines), encoding="utf-8")
    started = Server(folder / "data", "--config", str(folder / "headwater.toml"), with_tls=True)
    started.start()
    yield started
    started.end()
