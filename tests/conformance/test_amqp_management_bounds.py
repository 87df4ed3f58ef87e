"""What the management node of the AMQP door keeps for clients that take no responses, of all of them together."""

from __future__ import annotations

from pathlib import Path

from headwater.amqp.definitions import Condition
from headwater.amqp.messaging import Accepted, Rejected
from headwater.server.amqp.limits import Limits
from tests.amqp_client import AmqpClient, connect
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.listening import HOST

NODE, SELF = "$management", "org.amqp.management"


def waiting_bytes(door: ListeningAmqp) -> int:
    return door.call(lambda: door.amqp.waiting_responses.count)


def asked(client: AmqpClient, credit: int) -> AmqpClient:
    """A client that has asked for something."""
    client.receiver(NODE, credit=credit)
    client.ask(client.sender(NODE), "GET-TYPES", SELF)
    return client


def test_responses_that_wait_have_a_bound_in_bytes_which_those_who_take_theirs_do_not_meet(
    tmp_path: Path,
) -> None:
    with ListeningAmqp(tmp_path / "data", Limits(responses_bytes_max=1)) as door:
        with connect(HOST, door.amqp_port) as first:
            assert isinstance(asked(first, 0).outcome(), Accepted)
            assert waiting_bytes(door) > 1
            with connect(HOST, door.amqp_port) as second, connect(HOST, door.amqp_port) as third:
                refused = asked(second, 0).outcome()
                assert isinstance(refused, Rejected)
                assert refused.error is not None
                assert refused.error.condition == Condition.RESOURCE_LIMIT_EXCEEDED
                assert isinstance(asked(third, 1).outcome(), Accepted)
                assert third.message().application_properties
            first.close()
            first.wait_until_closed()
        assert waiting_bytes(door) == 0


def test_what_waits_is_let_go_with_its_link_its_session_and_its_connection(tmp_path: Path) -> None:
    with ListeningAmqp(tmp_path / "data") as door:
        with connect(HOST, door.amqp_port) as client:
            down = client.receiver(NODE, credit=0)
            up = client.sender(NODE)
            client.ask(up, "GET-TYPES", SELF)
            assert isinstance(client.outcome(), Accepted)
            assert waiting_bytes(door) > 0
            down.detach()
            client.detached(down)
            assert waiting_bytes(door) == 0
            client.begin()
            asked(client, 0).outcome()
            assert waiting_bytes(door) > 0
            client.session.end()
            client.begin()
            assert waiting_bytes(door) == 0
            asked(client, 0).outcome()
            assert waiting_bytes(door) > 0
        client.end()
        with connect(HOST, door.amqp_port):
            assert waiting_bytes(door) == 0
