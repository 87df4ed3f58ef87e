"""A listening stream door, and connections to it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import Wire, opened

NUMBERS = itertools.count(1)

Connect: TypeAlias = Callable[..., Wire]


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningDoor]:
    """One door for all tests of a worker."""
    with ListeningDoor(tmp_path_factory.mktemp("door") / "data") as listening:
        yield listening


@pytest.fixture
def connect(door: ListeningDoor) -> Iterator[Connect]:
    """Opens connections to the door, closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def made(**how: Any) -> Wire:
            return stack.enter_context(opened(HOST, door.port, **how))

        yield made


@pytest.fixture
def wire(connect: Connect) -> Wire:
    """An open connection to the door."""
    return connect()


@pytest.fixture
def stream() -> str:
    """A name that no other test has."""
    return f"stream-{next(NUMBERS)}"
