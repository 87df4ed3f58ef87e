"""A listening stream door, a listening AMQP door, and connections to them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import AmqpWire
from tests.conformance.listening import HOST, ListeningDoor
from tests.conformance.wire import Wire, opened

NUMBERS = itertools.count(1)

Connect: TypeAlias = Callable[..., Wire]
ConnectAmqp: TypeAlias = Callable[..., AmqpWire]


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


@pytest.fixture
def log() -> str:
    """A name that no other test has."""
    return f"log-{next(NUMBERS)}"


@pytest.fixture(scope="session")
def amqp_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningAmqp]:
    """Both doors over one store, for all tests of a worker."""
    with ListeningAmqp(tmp_path_factory.mktemp("amqp") / "data") as listening:
        yield listening


@pytest.fixture
def connect_amqp(amqp_door: ListeningAmqp) -> Iterator[ConnectAmqp]:
    """Opens AMQP connections, closed at the end of the test."""
    with contextlib.ExitStack() as stack:

        def made(**how: Any) -> AmqpWire:
            return stack.enter_context(amqp_door.connect(**how))

        yield made


@pytest.fixture
def peer(connect_amqp: ConnectAmqp) -> AmqpWire:
    """An open AMQP connection with a session."""
    return connect_amqp()
