"""What tests with clients of other makers share: a server for many tests, one that may be stopped, and names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.servers import Server

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
