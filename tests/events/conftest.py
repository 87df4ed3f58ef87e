"""A server process, and events that go in and out of it over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from headwater.server.security.permissions import Permission
from tests.http_api import Api
from tests.peers.servers import Server
from tests.security_material import catalogue

NUMBERS = itertools.count(1)
PASSWORD = "pencil"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Beside guest there is `ada`, who may read and write logs named `ada…`, and `reader`, who may only read."""
    folder = tmp_path_factory.mktemp("events") / "data"
    folder.mkdir()
    with catalogue(folder) as users:
        own = {"/": Permission("", "ada.*", "ada.*")}
        asyncio.run(users.add_user("ada", PASSWORD, permissions=own))
        asyncio.run(users.add_user("reader", PASSWORD, permissions={"/": Permission("", "", ".*")}))
    started = Server(folder)
    started.start()
    yield started
    started.end()


@pytest.fixture
def root(server: Server) -> Api:
    """As guest, who may do everything."""
    return Api(server.http_port, below="")


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"log-{next(NUMBERS)}"
