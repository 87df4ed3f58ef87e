"""Streams and super streams by name: what each wish of a client is answered."""

from __future__ import annotations

import pytest

from headwater.errors import InvalidSettings, LogDiffers, LogExists
from headwater.server.streams.topology import Topology
from headwater.streams.commands import ResponseCode
from tests.log_material import Machine

VHOST = "/"


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def topology(machine: Machine) -> Topology:
    return Topology(machine.store)


def test_the_same_stream_again_and_another_of_its_name_are_told_apart(topology: Topology) -> None:
    create = topology.create
    assert create(VHOST, "a", {"max-age": "1h"}) is ResponseCode.OK
    assert create(VHOST, "a", {"max-age": "60m"}) is ResponseCode.STREAM_ALREADY_EXISTS
    assert create(VHOST, "a", {"max-age": "2h"}) is ResponseCode.PRECONDITION_FAILED
    assert create("other", "a", {"max-age": "2h"}) is ResponseCode.OK


@pytest.mark.parametrize("name", ["", " ", "amq.x"])
def test_names_that_are_reserved_or_empty_are_refused(topology: Topology, name: str) -> None:
    assert topology.create(VHOST, name, {}) is ResponseCode.PRECONDITION_FAILED
    assert topology.create_super_stream(VHOST, "s", [name], ["0"], {}) is ResponseCode.PRECONDITION_FAILED
    with pytest.raises(InvalidSettings, match="setting name is invalid"):
        topology.make(VHOST, name, "stream", (), {})


def test_making_says_what_is_wrong(topology: Topology) -> None:
    topology.make(VHOST, "a", "stream", (), {})
    with pytest.raises(LogDiffers, match="exists already with other settings"):
        topology.make(VHOST, "a", "stream", (), {"max-age": "1h"})
    with pytest.raises(LogExists):
        topology.make(VHOST, "a", "super_stream", (), {})
    with pytest.raises(InvalidSettings, match="max-age"):
        topology.make(VHOST, "b", "stream", (), {"max-age": "soon"})


def test_a_log_remembers_the_arguments_that_mean_something(topology: Topology, machine: Machine) -> None:
    topology.create(VHOST, "a", {"max-age": "60m", "stream-max-segment-size-bytes": "1000", "x": "y"})
    machine.reopen()
    kept = machine.store.log("a").definition.arguments
    assert kept == {"max-age": "60m", "stream-max-segment-size-bytes": "1000"}


def test_bound_streams_are_partitions_with_keys_and_can_be_deleted_alone(
    topology: Topology, machine: Machine
) -> None:
    topology.make(VHOST, "orders", "super_stream", (), {})
    assert topology.route(VHOST, "orders", "eu") == ()
    for order, name in enumerate(("a", "b")):
        topology.create(VHOST, name, {})
        machine.store.bind_stream("orders", name, key="eu", order=order)
    assert topology.route(VHOST, "orders", "eu") == ("a", "b")
    assert topology.partition_index(VHOST, "orders", "b") == 1
    assert topology.delete(VHOST, "a") is ResponseCode.OK
    assert topology.route(VHOST, "orders", "eu") == ("b",)
    assert topology.delete_super_stream(VHOST, "orders") is ResponseCode.OK
    assert topology.stream(VHOST, "b") is not None


def test_a_partition_of_its_own_is_not_deleted_alone(topology: Topology) -> None:
    assert topology.create_super_stream(VHOST, "s", ["s-0", "s-1"], ["0", "1"], {}) is ResponseCode.OK
    assert topology.delete(VHOST, "s-0") is ResponseCode.PRECONDITION_FAILED
    assert topology.delete(VHOST, "s") is ResponseCode.STREAM_DOES_NOT_EXIST
    assert topology.create_super_stream(VHOST, "t", ["t-0"], [], {}) is ResponseCode.PRECONDITION_FAILED
    assert topology.create_super_stream(VHOST, "t", [], [], {}) is ResponseCode.PRECONDITION_FAILED
