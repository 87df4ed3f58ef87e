"""A server process with users of every kind, and the API as each of them calls it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from headwater.server.security.permissions import Permission
from headwater.server.security.users import Role
from tests.http_api import Api
from tests.peers.servers import Server
from tests.security_material import catalogue
from tests.stream_client import StreamClient

NUMBERS = itertools.count(1)
PASSWORD = "pencil"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Beside guest: `watcher`, a monitor; `ada`, who may do everything with logs named `ada…`; `nobody`."""
    folder = tmp_path_factory.mktemp("management") / "data"
    folder.mkdir()
    with catalogue(folder) as users:
        own = {"/": Permission("ada.*", "ada.*", "ada.*")}
        asyncio.run(users.add_user("watcher", PASSWORD, roles=[Role.MONITOR]))
        asyncio.run(users.add_user("ada", PASSWORD, permissions=own))
        asyncio.run(users.add_user("nobody", PASSWORD))
    config = folder.with_name("headwater.toml")
    config.write_text("sasl_failure_delay_s = 0.01\n")
    started = Server(folder, "--config", str(config))
    started.start()
    yield started
    started.end()


@pytest.fixture
def api(server: Server) -> Api:
    """As guest, who is an administrator."""
    return Api(server.http_port)


@pytest.fixture
def ada(server: Server) -> Api:
    return Api(server.http_port, "ada", PASSWORD)


@pytest.fixture
def watcher(server: Server) -> Api:
    return Api(server.http_port, "watcher", PASSWORD)


@pytest.fixture
def nobody(server: Server) -> Api:
    return Api(server.http_port, "nobody", PASSWORD)


@pytest.fixture
def root(server: Server) -> Api:
    """As guest, of all that the HTTP door serves."""
    return Api(server.http_port, below="")


@pytest.fixture
def ada_at_root(server: Server) -> Api:
    return Api(server.http_port, "ada", PASSWORD, below="")


@pytest.fixture
def watcher_at_root(server: Server) -> Api:
    return Api(server.http_port, "watcher", PASSWORD, below="")


@pytest.fixture
def nobody_at_root(server: Server) -> Api:
    return Api(server.http_port, "nobody", PASSWORD, below="")


@pytest.fixture
def client(server: Server) -> Iterator[StreamClient]:
    """A stream client of guest."""
    with StreamClient(server.stream_port, properties={"connection_name": "a name"}) as opened:
        yield opened


@pytest.fixture
def name() -> str:
    """A name that no other test has, and that ada has no right to."""
    return f"name-{next(NUMBERS)}"
