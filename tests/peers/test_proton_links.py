"""Qpid Proton's links, sessions and connections in every way that they can be used: settling, credit, drain, ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import ConnectionException, Delivery, Endpoint, Event, Handler, Link, Message, Terminus, Timeout
from proton.reactor import AtMostOnce, Container, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

from tests.http_api import Api
from tests.peers.proton_clients import (
    STEP_TIMEOUT_S,
    Raw,
    bodies,
    connected,
    from_offset,
    numbered,
    receive_from,
    send_all,
    url_of,
)
from tests.peers.servers import Server

WAITS_FOR_NOTHING_S = 0.2
SMALL_FRAME_BYTES = 1024


class SettlesSecond(LinkOption):
    """The receiving end waits with settling until the sending end has."""

    def apply(self, link: Link) -> None:
        link.rcv_settle_mode = Link.RCV_SECOND


def raw_receiver(connection: BlockingConnection, stream: str, raw: Raw, *options: LinkOption) -> Link:
    """A receiver without credit that takes deliveries as they come."""
    raw.receiver = connection.create_receiver(
        stream, credit=0, handler=raw, name=f"raw-{id(raw)}", options=[from_offset(), *options]
    )
    return raw.receiver.link


def wait_for_nothing(connection: BlockingConnection, condition: Callable[[], object]) -> None:
    """See that this does not come about, in a while."""
    with pytest.raises(Timeout):
        connection.wait(condition, timeout=WAITS_FOR_NOTHING_S)


# Settling


def test_a_sender_that_settles_first_is_told_the_outcome_and_settles(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream, options=SettlesSecond())
        assert sender.link.remote_rcv_settle_mode == Link.RCV_SECOND
        delivery = sender.link.send(Message(body="one"))
        connection.wait(lambda: delivery.remote_state == Delivery.ACCEPTED)
        assert not delivery.settled, "the server waits for the sender to settle"
        delivery.settle()
        after = sender.link.send(Message(body="two"))
        connection.wait(lambda: after.remote_state == Delivery.ACCEPTED)
        assert bodies(receive_from(connection, stream), 2) == ["one", "two"]


def test_a_receiver_that_settles_second_waits_for_the_server_to_settle(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 3))
        raw = Raw(state=None)
        link = raw_receiver(connection, stream, raw, SettlesSecond())
        assert link.remote_rcv_settle_mode == Link.RCV_SECOND
        link.flow(3)
        connection.wait(lambda: len(raw.deliveries) == 3)
        for state, delivery in zip(
            (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.REJECTED), raw.deliveries, strict=True
        ):
            assert not delivery.settled
            delivery.update(state)
        connection.wait(lambda: all(delivery.settled for delivery in raw.deliveries))


def test_many_deliveries_are_settled_in_ranges_and_out_of_order(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 300))
        raw = Raw(state=None)
        link = raw_receiver(connection, stream, raw)
        link.flow(300)
        connection.wait(lambda: len(raw.deliveries) == 300)
        for part in (raw.deliveries[200:], raw.deliveries[:100:2], raw.deliveries[1:200:2]):
            for delivery in part:
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
        link.flow(1)
        send_all(connection, stream, ["after"])
        connection.wait(lambda: len(raw.payloads) == 301)


def test_thousands_of_settled_messages_go_in_and_out(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream, options=AtMostOnce())
        for start in range(0, 5000, 500):
            connection.wait(lambda: sender.link.credit >= 500)
            for text in numbered(start, start + 500):
                sender.link.send(Message(body=text))
        receiver = receive_from(connection, stream, "first", 5000, AtMostOnce())
        assert bodies(receiver, 5000) == numbered(0, 5000)


# Credit and drain


def test_no_more_comes_than_there_is_credit_for(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 10))
        raw = Raw()
        link = raw_receiver(connection, stream, raw)
        wait_for_nothing(connection, lambda: raw.payloads)
        link.flow(3)
        connection.wait(lambda: len(raw.payloads) == 3)
        wait_for_nothing(connection, lambda: len(raw.payloads) > 3)
        link.flow(4)
        connection.wait(lambda: len(raw.payloads) == 7)
        assert link.credit == 0


@pytest.mark.parametrize("there_are", [0, 4, 30])
def test_a_drained_receiver_gets_what_there_is_and_its_credit_back(
    server: Server, stream: str, there_are: int
) -> None:
    with connected(server) as connection:
        connection.create_sender(stream)
        send_all(connection, stream, numbered(0, there_are))
        raw = Raw()
        link = raw_receiver(connection, stream, raw)
        link.drain(10)
        connection.wait(lambda: not link.draining())
        assert len(raw.payloads) == min(there_are, 10)
        assert link.credit == 0
        link.drain_mode = False
        link.flow(1)
        send_all(connection, stream, ["after"])
        connection.wait(lambda: len(raw.payloads) == min(there_are, 10) + 1)


def test_receiving_with_time_outs_until_there_is_no_more(server: Server, stream: str) -> None:
    with connected(server) as connection:
        send_all(connection, stream, numbered(0, 7))
        receiver = receive_from(connection, stream)
        assert bodies(receiver, 7) == numbered(0, 7)
        with pytest.raises(Timeout):
            receiver.receive(timeout=WAITS_FOR_NOTHING_S)
        send_all(connection, stream, ["later"])
        assert receiver.receive().body == "later"


# Messages of several frames


@pytest.mark.parametrize("size", [SMALL_FRAME_BYTES - 40, SMALL_FRAME_BYTES, 100_000, 1_000_000])
def test_large_messages_pass_in_small_frames_both_ways(server: Server, stream: str, size: int) -> None:
    with connected(server, max_frame_size=SMALL_FRAME_BYTES) as connection:
        assert connection.conn.transport.remote_max_frame_size > SMALL_FRAME_BYTES
        body = "".join(map(str, range(size)))[:size]
        sender = connection.create_sender(stream)
        for text in ("before", body, "after"):
            sender.send(Message(body=text))
        assert bodies(receive_from(connection, stream, credit=3), 3) == ["before", body, "after"]


def test_messages_of_several_frames_come_as_far_as_the_window_of_a_session_allows(
    server: Server, stream: str
) -> None:
    texts = [f"{number:04}" * 700 for number in range(60)]
    with connected(server) as connection:
        send_all(connection, stream, texts)
    with connected(server, max_frame_size=SMALL_FRAME_BYTES) as connection:
        session = connection.conn.session()
        session.incoming_capacity = 4 * SMALL_FRAME_BYTES
        session.open()
        link = session.receiver("narrow")
        link.source.address = stream
        from_offset().apply(link)
        raw = Raw()
        link.handler = raw
        link.open()
        link.flow(60)
        connection.wait(lambda: len(raw.payloads) == 60)
        decoded = Message()
        for text, payload in zip(texts, raw.payloads, strict=True):
            decoded.decode(payload)
            assert decoded.body == text


def test_an_aborted_message_leaves_nothing_behind(server: Server, stream: str) -> None:
    with connected(server, max_frame_size=SMALL_FRAME_BYTES) as connection:
        sender = connection.create_sender(stream)
        sender.send(Message(body="before"))
        for number in range(3):
            begun = sender.link.delivery(f"aborted-{number}")
            sender.link.stream(Message(body=b"x" * 10_000).encode()[:5000])
            frames = connection.conn.transport.frames_output
            connection.wait(lambda at_least=frames: connection.conn.transport.frames_output > at_least)
            begun.abort()
        sender.send(Message(body="after"))
        assert bodies(receive_from(connection, stream, credit=9), 2) == ["before", "after"]
        queue = Api(server.http_port).get(f"/queues/%2F/{stream}")
        assert queue["messages"] == 2


# Links, sessions and connections that end


class Leaving(Handler):
    """Hears of the answer to a detach, be it one that closes or not."""

    def __init__(self) -> None:
        super().__init__()
        self.has_left = False

    def on_link_remote_close(self, event: Event) -> None:
        self.has_left = True

    def on_link_remote_detach(self, event: Event) -> None:
        self.has_left = True


def test_a_link_that_was_closed_or_detached_can_be_attached_again(server: Server, stream: str) -> None:
    ways = (Link.close, Link.detach, Link.close)
    with connected(server) as connection:
        for number, leave in enumerate(ways):
            leaving = Leaving()
            sender = connection.create_sender(stream, name="again", handler=leaving)
            sender.send(Message(body=number))
            leave(sender.link)
            connection.wait(lambda leaving=leaving: leaving.has_left)
            sender.link.free()
        assert bodies(receive_from(connection, stream, credit=3), 3) == [0, 1, 2]


def test_a_session_ends_with_its_links_and_the_others_go_on(server: Server, stream: str) -> None:
    with connected(server) as connection:
        kept = connection.create_sender(stream)
        session = connection.conn.session()
        session.open()
        link = session.sender("of the session")
        link.target.address = stream
        link.open()
        connection.wait(lambda: link.credit)
        link.send(Message(body="one"))
        session.close()
        connection.wait(lambda: session.state & Endpoint.REMOTE_CLOSED)
        kept.send(Message(body="two"))
        assert bodies(receive_from(connection, stream), 2) == ["one", "two"]


def test_a_link_is_stolen_by_one_of_the_same_name_and_container(server: Server, stream: str) -> None:
    with connected(server, container=Container(container_id=f"of-{stream}")) as old:
        first = old.create_sender(stream, name="mine")
        first.send(Message(body="one"))
        with connected(server, container=Container(container_id=f"of-{stream}")) as new:
            second = new.create_sender(stream, name="mine")
            second.send(Message(body="two"))
            with pytest.raises(LinkDetached) as stolen:
                first.send(Message(body="never"))
            assert stolen.value.condition == "amqp:link:stolen"
            assert bodies(receive_from(new, stream, credit=3), 2) == ["one", "two"]
        other = old.create_sender(stream, name="another")
        other.send(Message(body="the connection goes on"))


@pytest.mark.parametrize("is_sender", [True, False], ids=["sender", "receiver"])
def test_links_to_a_deleted_log_are_told_so(server: Server, stream: str, is_sender: bool) -> None:
    with connected(server) as connection:
        send_all(connection, stream, ["one"])
        link = connection.create_sender(stream) if is_sender else connection.create_receiver(stream)
        Api(server.http_port).do("DELETE", f"/queues/%2F/{stream}")
        with pytest.raises(LinkDetached, match="was deleted") as deleted:
            connection.wait(lambda: False)
        assert deleted.value.condition == "amqp:resource-deleted"
        assert link.link.state & Endpoint.REMOTE_CLOSED
        send_all(connection, stream, ["a new log of that name"])
        assert bodies(receive_from(connection, stream), 1) == ["a new log of that name"]


def test_a_closed_connection_is_told_by_whom(server: Server, stream: str) -> None:
    container = Container(container_id=f"closed-{stream}")
    connection = BlockingConnection(url_of(server), timeout=STEP_TIMEOUT_S, container=container)
    try:
        receiver = connection.create_receiver(None, dynamic=True)
        api = Api(server.http_port)
        listed = [each for each in api.get("/connections") if f"closed-{stream}" in str(each)]
        assert len(listed) == 1
        api.do("DELETE", "/connections/" + listed[0]["name"].replace(" ", "%20").replace(">", "%3E"))
        with pytest.raises(ConnectionException, match="amqp:connection:forced"):
            receiver.receive()
    finally:
        connection.close()


def test_a_quiet_connection_lives_by_heartbeats(server: Server, stream: str) -> None:
    with connected(server, heartbeat=0.4) as connection:
        sender = connection.create_sender(stream)
        transport = connection.conn.transport
        heard = transport.frames_input
        connection.wait(lambda: transport.frames_input >= heard + 5)
        assert sender.send(Message(body="still there")).remote_state == Delivery.ACCEPTED


# Transactions


def test_a_coordinator_is_refused_and_the_connection_goes_on(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream)

        class Coordinated(LinkOption):
            def apply(self, link: Link) -> None:
                link.target.type = Terminus.COORDINATOR

        with pytest.raises(LinkDetached, match="use a session without them") as refused:
            connection.create_sender(None, name="transactions", options=Coordinated())
        assert refused.value.condition == "amqp:not-implemented"
        assert sender.send(Message(body="one")).remote_state == Delivery.ACCEPTED


def test_a_message_of_a_transaction_breaks_its_link_alone(server: Server, stream: str) -> None:
    with connected(server) as connection:
        sender = connection.create_sender(stream)
        delivery = sender.link.delivery("in a transaction")
        delivery.local.data = [b"transaction 1"]
        delivery.update(0x34)
        sender.link.stream(Message(body="never").encode())
        sender.link.advance()
        with pytest.raises(LinkDetached, match="there are no transactions here") as refused:
            connection.wait(lambda: False)
        assert refused.value.condition == "amqp:not-implemented"
        send_all(connection, stream, ["outside"])
        receiver: BlockingReceiver = receive_from(connection, stream, credit=2)
        assert bodies(receiver, 1) == ["outside"]
