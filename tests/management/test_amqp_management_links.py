"""How requests come to `$management` and responses go: every shape of links that clients use, and every bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.amqp.connection import Limits as MachineLimits
from headwater.amqp.definitions import Condition, SenderSettleMode
from headwater.amqp.events import Settled
from headwater.amqp.messaging import Accepted, DeliveryState, Rejected, Source, Target
from headwater.amqp.receiver_link import ReceiverLink
from headwater.encoding.amqp_message import AmqpValue, Message, Properties, encode_message
from headwater.server.amqp.limits import Limits
from tests.amqp_client import AmqpClient, connect, plain
from tests.http_api import Api
from tests.management.conftest import PASSWORD
from tests.peers.servers import HOST, Server

NODE, SELF, LOG = "$management", "org.amqp.management", "headwater.log"
LIMITS = Limits()


@pytest.fixture
def client(server: Server) -> Iterator[AmqpClient]:
    with connect(HOST, server.amqp_port) as opened:
        yield opened


def code(message: Message) -> int:
    assert message.application_properties is not None
    return int(message.application_properties["statusCode"])


def correlation(message: Message) -> object:
    assert message.properties is not None
    return message.properties.correlation_id


def refusal(state: DeliveryState | None) -> Condition:
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.description
    return Condition(state.error.condition)


def outcomes(client: AmqpClient, count: int) -> list[DeliveryState | None]:
    """What became of so many deliveries."""
    found: list[DeliveryState | None] = []
    while len(found) < count:
        event = client.wait_for(Settled)
        settled = sum(end - first for _, ranges in event.parts for first, end in ranges)
        found += [event.state] * settled
    assert len(found) == count
    return found


# Where responses go


@pytest.mark.clause("AMQP management 4")
@pytest.mark.parametrize("reply_to", [None, NODE])
def test_a_sender_and_a_receiver_of_the_node_make_a_pair(client: AmqpClient, reply_to: str | None) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE, NODE)
    client.ask(up, "GET-TYPES", SELF, message_id="first", reply_to=reply_to)
    answer = client.message()
    assert (code(answer), correlation(answer)) == (200, "first")
    assert isinstance(client.outcome(), Accepted)


@pytest.mark.clause("AMQP management 4")
def test_the_target_of_a_receiver_is_an_address_to_reply_to(client: AmqpClient) -> None:
    up = client.sender(NODE)
    client.receiver(NODE, "one", "down-1")
    two = client.receiver(NODE, "two", "down-2", credit=0)
    client.ask(up, "GET-TYPES", SELF, message_id="for two", reply_to="two")
    client.ask(up, "GET-TYPES", SELF, message_id="for one", reply_to="one")
    assert correlation(client.message()) == "for one"
    two.grant(1)
    assert correlation(client.message()) == "for two"


def test_without_a_reply_to_the_receiver_that_is_nearest_is_taken(client: AmqpClient) -> None:
    """Of the same session and of the same name as the sender, whichever came first."""
    ups = [client.sender(NODE, name) for name in ("one", "two")]
    for name in ("two", "one", "three"):
        client.receiver(NODE, NODE, name, credit=0)
    first_session = client.session
    client.begin()
    there = client.sender(NODE, "elsewhere")
    client.receiver(NODE, NODE, "elsewhere", credit=0)
    for number, up in enumerate((*ups, there)):
        client.ask(up, "GET-TYPES", SELF, message_id=number)
    assert outcomes(client, 3) == [Accepted()] * 3
    for session, name, expected in (
        (first_session, "two", 1),
        (first_session, "one", 0),
        (client.session, "elsewhere", 2),
    ):
        link = next(
            each for each in session.links.values() if isinstance(each, ReceiverLink) and each.name == name
        )
        link.grant(1)
        assert correlation(client.message()) == expected


@pytest.mark.clause("AMQP management 4")
def test_a_dynamic_node_takes_responses(client: AmqpClient) -> None:
    down = ReceiverLink(client.session, "replies")
    down.attach(Source(dynamic=True), Target())
    client.flush()
    up = client.sender(NODE)
    assert isinstance(down.remote.source, Source)
    down.grant(10)
    client.ask(up, "GET-TYPES", SELF, message_id="x", reply_to=down.remote.source.address)
    answer = client.message()
    assert (code(answer), correlation(answer)) == (200, "x")


def test_a_log_takes_responses_of_who_may_write_to_it(
    server: Server, client: AmqpClient, api: Api, name: str
) -> None:
    for log in (name, f"ada-{name}"):
        api.do("PUT", f"/queues/%2F/{log}", {"arguments": {"x-queue-type": "stream"}})
    client.receiver(name)
    client.receiver(f"ada-{name}", name="hers")
    client.ask(client.sender(NODE), "GET-TYPES", SELF, message_id="guest", reply_to=name)
    assert correlation(client.message()) == "guest"
    with connect(HOST, server.amqp_port, data=plain("ada", PASSWORD)) as ada:
        up = ada.sender(NODE)
        ada.ask(up, "GET-TYPES", SELF, message_id="ada", reply_to=name)
        assert refusal(ada.outcome()) is Condition.UNAUTHORIZED_ACCESS
        ada.ask(up, "GET-TYPES", SELF, message_id="ada", reply_to=f"ada-{name}")
        assert isinstance(ada.outcome(), Accepted)
    assert correlation(client.message()) == "ada"


def test_a_log_of_cloudevents_takes_no_responses(client: AmqpClient, api: Api, name: str) -> None:
    up, down = client.sender(NODE), client.receiver(NODE)
    assert down.remote.source is not None
    client.ask(up, "CREATE", LOG, name=name, body={"content": "cloudevents"})
    assert correlation(client.message()) is None
    client.outcome()
    client.ask(up, "CREATE", LOG, name=f"{name}-2", reply_to=name)
    assert refusal(client.outcome()) is Condition.PRECONDITION_FAILED
    assert api.ask("GET", f"/queues/%2F/{name}-2").status == 404


def test_a_request_that_cannot_be_answered_is_rejected_and_not_carried_out(
    client: AmqpClient, api: Api, name: str
) -> None:
    up = client.sender(NODE)
    client.ask(up, "CREATE", LOG, name=f"{name}-1")
    assert refusal(client.outcome()) is Condition.PRECONDITION_FAILED
    client.ask(up, "CREATE", LOG, name=f"{name}-2", reply_to=f"{name}-nowhere")
    assert refusal(client.outcome()) is Condition.NOT_FOUND
    for suffix in ("1", "2", "nowhere"):
        assert api.ask("GET", f"/queues/%2F/{name}-{suffix}").status == 404


@pytest.mark.clause("AMQP management 4")
def test_the_anonymous_relay_reaches_the_node(client: AmqpClient, name: str) -> None:
    relay = client.sender(None)
    client.receiver(NODE, "me")
    client.ask(relay, "CREATE", LOG, name=name, to=NODE, reply_to="me", message_id="c")
    answer = client.message()
    assert (code(answer), correlation(answer)) == (201, "c")
    assert isinstance(client.outcome(), Accepted)
    client.send(relay, Message(properties=Properties(to=name), body=AmqpValue("a message")))
    assert isinstance(client.outcome(), Accepted)


def test_responses_come_in_the_order_of_the_requests_and_before_a_detach_is_answered(
    client: AmqpClient,
) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE)
    for number in range(20):
        client.ask(up, "QUERY", SELF, {}, message_id=number)
    up.detach()
    client.detached(up)
    assert [correlation(client.message()) for _ in range(20)] == list(range(20))


# What is malformed


def test_what_is_no_message_is_rejected(client: AmqpClient) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE)
    for data in (b"\x00\x53\x77", b"garbage"):
        client.send(up, data)
        assert refusal(client.outcome()) is Condition.DECODE_ERROR
    client.ask(up, "GET-TYPES", SELF)
    assert code(client.message()) == 200


def test_a_message_that_asks_for_nothing_is_a_bad_request(client: AmqpClient) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE)
    client.send(up, Message(properties=Properties(message_id=b"id"), body=AmqpValue("hello")))
    answer = client.message()
    assert (code(answer), correlation(answer)) == (400, b"id")
    assert answer.application_properties is not None
    assert "operation" in answer.application_properties["statusDescription"]


def test_other_message_formats_are_refused(client: AmqpClient) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE)
    while not up.may_send:
        client.receive()
    up.send(b"whatever", message_format=0x80013700)
    client.flush()
    assert refusal(client.outcome()) is Condition.NOT_IMPLEMENTED


def test_a_settled_request_that_is_refused_breaks_its_link(client: AmqpClient) -> None:
    up = client.sender(NODE, snd_settle_mode=SenderSettleMode.SETTLED)
    client.ask(up, "GET-TYPES", SELF)
    error = client.detached(up).error
    assert error is not None
    assert error.condition == Condition.PRECONDITION_FAILED


# Bounds


def test_a_request_has_a_largest_size(client: AmqpClient) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE)
    client.ask(up, "GET-TYPES", SELF, bytes(LIMITS.request_bytes_max))
    assert refusal(client.outcome()) is Condition.LINK_MESSAGE_SIZE_EXCEEDED
    client.ask(up, "GET-TYPES", SELF, bytes(LIMITS.request_bytes_max - 200))
    assert code(client.message()) == 200


@pytest.mark.clause("AMQP management 4")
def test_responses_that_nobody_gives_credit_for_are_kept_up_to_a_number(
    server: Server, client: AmqpClient
) -> None:
    up, down = client.sender(NODE), client.receiver(NODE, credit=0)
    for number in range(LIMITS.responses_max):
        client.ask(up, "GET-TYPES", SELF, message_id=number)
        assert isinstance(client.outcome(), Accepted)
    client.ask(up, "GET-TYPES", SELF, message_id="one too many")
    assert refusal(client.outcome()) is Condition.RESOURCE_LIMIT_EXCEEDED
    with connect(HOST, server.amqp_port) as other:
        other.receiver(NODE)
        other.ask(other.sender(NODE), "GET-TYPES", SELF)
        assert code(other.message()) == 200
    down.grant(1)
    assert correlation(client.message()) == 0
    client.ask(up, "GET-TYPES", SELF, message_id="room again")
    assert isinstance(client.outcome(), Accepted)
    down.grant(LIMITS.responses_max)
    found = [correlation(client.message()) for _ in range(LIMITS.responses_max)]
    assert found == [*range(1, LIMITS.responses_max), "room again"]


def test_requests_that_come_faster_than_they_are_answered_are_rejected_beyond_a_number(
    client: AmqpClient,
) -> None:
    """Over the relay, whose credit is not that of the node."""
    count = 8 * LIMITS.requests_max
    relay, _ = client.sender(None), client.receiver(NODE, credit=count)
    client.ask(relay, "GET-TYPES", SELF, to=NODE)
    assert isinstance(client.outcome(), Accepted)
    client.message()
    for number in range(count):
        relay.send(request_bytes(number))
    client.flush()
    states = outcomes(client, count)
    accepted = sum(isinstance(state, Accepted) for state in states)
    assert LIMITS.requests_max <= accepted < count
    assert {refusal(state) for state in states if not isinstance(state, Accepted)} == {
        Condition.RESOURCE_LIMIT_EXCEEDED
    }
    for _ in range(accepted):
        assert code(client.message()) == 200
    assert client.messages == []


def test_a_sender_to_the_node_has_as_much_credit_as_requests_may_wait(client: AmqpClient) -> None:
    up, _ = client.sender(NODE), client.receiver(NODE, credit=1000)
    while not up.may_send:
        client.receive()
    assert up.credit == LIMITS.requests_max
    for number in range(3 * LIMITS.requests_max):
        client.ask(up, "GET-TYPES", SELF, message_id=number)
    assert [correlation(client.message()) for _ in range(3 * LIMITS.requests_max)] == [
        *range(3 * LIMITS.requests_max)
    ]


def test_a_response_that_the_client_would_not_take_is_one_that_says_so(server: Server, name: str) -> None:
    with connect(HOST, server.amqp_port) as client:
        up, down = client.sender(NODE), client.receiver(NODE)
        client.machine.limits = MachineLimits(message_size_bytes_max=400)
        client.receiver(NODE, "small", "small")
        for operation, body in (("QUERY", {}), ("GET-ATTRIBUTES", None)):
            client.ask(up, operation, SELF, body, reply_to="small")
            answer = client.message()
            assert code(answer) == 413
            assert answer.application_properties is not None
            assert "offset and count" in answer.application_properties["statusDescription"]
        client.ask(up, "QUERY", SELF, {"attributeNames": ["name"]}, count=1, reply_to="small")
        assert code(client.message()) == 200
        assert down.is_attached


def test_a_drained_receiver_gives_its_credit_back_when_all_is_sent(client: AmqpClient) -> None:
    up, down = client.sender(NODE), client.receiver(NODE, credit=5)
    client.ask(up, "GET-TYPES", SELF)
    client.message()
    down.drain()
    client.flush()
    while down.credit:
        client.receive()
    client.ask(up, "GET-TYPES", SELF, message_id="after")
    assert isinstance(outcomes(client, 2)[-1], Accepted)
    down.grant(1)
    assert correlation(client.message()) == "after"


def request_bytes(number: int) -> bytes:
    """A request over the relay."""
    return encode_message(
        Message(
            properties=Properties(message_id=number, to=NODE),
            application_properties={"operation": "GET-MGMT-NODES", "type": SELF},
        )
    )


def test_the_node_is_no_log(client: AmqpClient) -> None:
    """Nothing is made by attaching to it."""
    up, _ = client.sender(NODE), client.receiver(NODE)
    client.ask(up, "READ", LOG, name=NODE)
    assert code(client.message()) == 404
