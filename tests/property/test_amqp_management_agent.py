"""Any request to the management node is answered, with a response that can be sent, and harms nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.amqp.management import OperationFailed, Request, RequestMessage, StatusCode, encode_response
from headwater.encoding.amqp_message import AmqpValue, Message, decode_message, encode_message
from headwater.log.store import Store
from headwater.server.amqp.management.agent import Agent
from headwater.server.amqp.management.connections import ConnectionType
from headwater.server.amqp.management.consumers import GroupType, SubscriptionType
from headwater.server.amqp.management.entity_types import Asker
from headwater.server.amqp.management.logs import LogType
from headwater.server.consumers.consumers import Consumers
from headwater.server.consumers.log_events import follow_logs
from headwater.server.management.clients import Clients
from headwater.server.management.groups import ManagedGroups
from headwater.server.management.subscriptions import ManagedSubscriptions
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity
from tests.security_material import catalogue, log_in

RESPONSE_BYTES_MAX = 5_000

LOG, CONNECTION, SELF = "headwater.log", "headwater.connection", "org.amqp.management"
GROUP, SUBSCRIPTION = "headwater.group", "headwater.subscription"
TELLING = ("GET-TYPES", "GET-ANNOTATIONS", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-MGMT-NODES")
KNOWN = [
    *((LOG, operation) for operation in ("CREATE", "READ", "UPDATE", "DELETE")),
    *((CONNECTION, operation) for operation in ("READ", "DELETE")),
    *((GROUP, operation) for operation in ("CREATE", "READ", "RESET", "DELETE")),
    *((SUBSCRIPTION, operation) for operation in ("READ", "RESET", "DELETE")),
    *((SELF, operation) for operation in ("READ", "QUERY", *TELLING)),
]
TYPES = st.sampled_from([LOG, CONNECTION, GROUP, SUBSCRIPTION, SELF, "x", ""])
NAMES = st.sampled_from(
    ["a", "b", "a-0", "", "$x", "amq.x", "self", "1", "2", "é" * 130, "a/", "/g", "%2F/%ff", "0" * 32]
) | st.text(max_size=4)
PLACES = st.sampled_from(["earliest", "latest", 0, 1, "1999-12-31T23:59:59Z", "2020-13-01"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | NAMES | st.binary(max_size=3)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
NUMBERS = st.none() | st.sampled_from([1, 2, "3", 100, 65_536])
SENSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["stream", "super_stream"]),
        "partition_count": NUMBERS,
        "durability": st.sampled_from(["disk", "memory"]),
        "segment_bytes": NUMBERS,
        "max_bytes": NUMBERS,
        "group_binding": st.sampled_from(["assign", "dynamic"]),
        "delivery_count_max": NUMBERS,
        "dead_letter_log": NAMES,
        "to": PLACES | NAMES,
        "start": PLACES,
        "partition": st.sampled_from(["0", "1", "a-0"]) | NAMES,
        "attributeNames": st.lists(st.sampled_from(["name", "partitions", "x"]), max_size=2),
    },
)
BODIES: st.SearchStrategy[Any] = (
    st.just({}) | SENSIBLE | st.dictionaries(st.text(max_size=3), VALUES, max_size=2) | VALUES
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "b", "c"]) | NAMES,
        "identity": st.sampled_from(["a/g", "b/g"]) | NAMES,
        "entityType": TYPES | VALUES,
        "offset": st.integers(0, 5) | VALUES,
        "count": st.integers(0, 5) | VALUES,
    },
)
OTHER = st.tuples(TYPES, st.sampled_from([*TELLING, "CREATE", "DELETE", "QUERY", "UPDATE", ""]))
ANYTHING = st.tuples(st.sampled_from(KNOWN) | OTHER, ARGUMENTS, BODIES)
GROUPS = st.tuples(
    st.tuples(st.just(GROUP), st.sampled_from(["CREATE", "READ", "RESET", "DELETE"])),
    st.fixed_dictionaries({"name": st.sampled_from(["a/g", "b/g", "c/g"])}),
    st.just({}) | st.fixed_dictionaries({"start": PLACES}) | st.fixed_dictionaries({"to": PLACES}),
)
SOUND = GROUPS | st.tuples(
    st.sampled_from([*KNOWN[:3], (SELF, "QUERY")]),
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}),
    st.fixed_dictionaries({}, optional={"partition_count": st.integers(1, 40)}),
)
"""Requests that make, find and delete a few logs, so that the others meet some."""


class Harness:
    """An agent over a store, and a user who may do everything."""

    def __init__(
        self, store: Store, access: Access, identity: Identity, loop: asyncio.AbstractEventLoop
    ) -> None:
        def delete(vhost: str, name: str) -> None:
            store.delete_log(name, vhost)

        self._loop = loop
        consumers = Consumers(store, loop, 0.05)
        follow_logs(store, consumers)
        self._agent = Agent(
            [
                LogType(store, delete),
                ConnectionType(Clients(), loop),
                GroupType(ManagedGroups(store, consumers)),
                SubscriptionType(ManagedSubscriptions(store, consumers, lambda _=None: ())),
            ]
        )
        self._asker = Asker(access, identity, "/", RESPONSE_BYTES_MAX)

    def answer(self, request: Request) -> Message:
        response = self._loop.run_until_complete(self._agent.answer(self._asker, request))
        data = encode_response(response, "here", "id")
        return decode_message(data, 0, len(data))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    folder: Path = tmp_path_factory.mktemp("agent")
    loop = asyncio.new_event_loop()
    with catalogue(folder) as users:
        store = Store.open(folder, loop=loop)
        identity = log_in(users, "guest", "guest", is_loopback=True)
        assert isinstance(identity, Identity)
        yield Harness(store, Access(users), identity, loop)
        store.close()
    loop.close()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=SOUND | ANYTHING)
def test_any_request_is_answered(
    harness: Harness, asked: tuple[tuple[str, str], dict[str, Any], Any]
) -> None:
    (type_, operation), arguments, body = asked
    properties = {"type": type_, "operation": operation, **arguments}
    sent = encode_message(Message(application_properties=properties, body=AmqpValue(body)))
    try:
        request = RequestMessage.decode(sent).request()
    except OperationFailed as failed:
        assert failed.status is StatusCode.BAD_REQUEST  # noqa: PT017 - any of two ends will do
        return
    answer = harness.answer(request)
    assert answer.application_properties is not None
    status = StatusCode(answer.application_properties["statusCode"])
    assert status not in (StatusCode.INTERNAL_ERROR, StatusCode.SERVICE_UNAVAILABLE), answer
    assert answer.application_properties["statusDescription"]
    if status >= StatusCode.BAD_REQUEST:
        assert answer.body == AmqpValue({})
