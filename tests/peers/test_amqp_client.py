"""Our AMQP client at a node of Qpid Proton: nothing that it does is understood by our own server alone."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headwater.amqp.connection import Limits
from headwater.amqp.definitions import ErrorValue, SenderSettleMode
from headwater.amqp.messaging import Released, Source, Target
from headwater.client.address import Address, Credentials
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_errors import LinkRefused, MessageRefused
from headwater.client.amqp_receiver import AmqpReceiver
from headwater.client.amqp_requester import AmqpRequester
from headwater.client.amqp_sender import AmqpSender
from headwater.client.errors import PeerUnreachable
from headwater.encoding.amqp_message import (
    AmqpValue,
    Message,
    Properties,
    body_of,
    data_section,
    encode_message,
)
from headwater.encoding.amqp_types import Symbol
from tests.peers.proton_clients import connected
from tests.peers.proton_node import ProtonNode
from tests.peers.servers import HOST, Server
from tests.peers.test_event_streams_proton import make_log
from tests.stream_peer import run, wait_for

ANONYMOUS = Credentials(mechanism="ANONYMOUS")
WAIT_S = 20.0


@pytest.fixture
def node() -> Iterator[ProtonNode]:
    with ProtonNode() as started:
        yield started


def at(
    node: ProtonNode, work: Callable[[AmqpConnection], Awaitable[None]], limits: Limits | None = None
) -> None:
    """Carry out a test on a connection to the node."""

    async def connected() -> None:
        async with await AmqpConnection.connect(
            Address(HOST, node.port), ANONYMOUS, limits=limits
        ) as connection:
            await work(connection)

    run(connected)


async def bodies(receiver: AmqpReceiver, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        message = await receiver.receive(WAIT_S)
        assert message is not None
        found.append(body_of(message.data))
        if not message.is_settled:
            receiver.accept(message)
    return found


@pytest.mark.parametrize("mode", [SenderSettleMode.UNSETTLED, SenderSettleMode.SETTLED])
def test_more_messages_than_proton_gives_credit_for_go_there_and_back(
    node: ProtonNode, mode: SenderSettleMode
) -> None:
    expected = [b"%d" % number for number in range(500)]

    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, "queue", settle_mode=mode)
        await sender.post(expected, as_data=True)
        await sender.flush()
        receiver = await AmqpReceiver.open(connection, "queue", credit_count=20, settle_mode=mode)
        assert await bodies(receiver, 500) == expected
        if mode is SenderSettleMode.UNSETTLED:
            assert sender.accepted_count == 500
            await wait_for(lambda: node.settled == ["accepted"] * 500)
        await receiver.close()
        await sender.close()

    at(node, work)


def test_a_message_keeps_what_is_in_its_sections(node: ProtonNode) -> None:
    sent = Message(
        message_annotations={Symbol("x-opt-kind"): "order"},
        properties=Properties(message_id="7", subject="created", correlation_id="c"),
        application_properties={"shop": "north", "items": 3},
        body=AmqpValue({"a": [1, None, "x"]}),
    )

    async def work(connection: AmqpConnection) -> None:
        await (await AmqpSender.open(connection, "queue")).send(sent)
        message = await (await AmqpReceiver.open(connection, "queue")).receive(WAIT_S)
        assert message is not None
        came = message.decode()
        assert (came.message_annotations, came.application_properties, came.body) == (
            sent.message_annotations,
            sent.application_properties,
            sent.body,
        )
        assert came.properties == sent.properties

    at(node, work)


def test_large_messages_are_split_as_both_ends_ask_for(node: ProtonNode) -> None:
    body = bytes(range(256)) * 2000

    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, "queue")
        await sender.send_batch([body, b"small", body], as_data=True)
        receiver = await AmqpReceiver.open(connection, "queue")
        assert await bodies(receiver, 3) == [body, b"small", body]

    at(node, work, Limits(frame_size_bytes_max=1024, message_size_bytes_max=1 << 20))


def test_refusals_of_messages_and_of_links_say_what_proton_said(node: ProtonNode) -> None:
    async def work(connection: AmqpConnection) -> None:
        with pytest.raises(MessageRefused, match=r"rejected: nobody wants it \(example:too-late\)"):
            await (await AmqpSender.open(connection, "rejecting")).send(data_section(b"x"))
        with pytest.raises(MessageRefused) as caught:
            await (await AmqpSender.open(connection, "releasing")).send(data_section(b"x"))
        assert caught.value.refusals[0].outcome == Released()
        for opens in (AmqpSender.open, AmqpReceiver.open):
            with pytest.raises(LinkRefused, match="there is nothing here") as refused:
                await opens(connection, "refused")
            assert refused.value.condition == "amqp:not-found"

    at(node, work)


def test_outcomes_of_ours_are_what_proton_hears(node: ProtonNode) -> None:
    async def work(connection: AmqpConnection) -> None:
        sender = await AmqpSender.open(connection, "queue")
        await sender.send_batch([b"x"] * 4, as_data=True)
        receiver = await AmqpReceiver.open(connection, "queue")
        messages = [await receiver.receive(WAIT_S) for _ in range(4)]
        one, two, three, four = [message for message in messages if message is not None]
        receiver.reject(one, ErrorValue(Symbol("example:bad"), "no"))
        receiver.release(two)
        receiver.modify(three)
        receiver.accept(four)
        await wait_for(lambda: len(node.settled) == 4)
        # Proton calls a modified delivery released too.
        assert sorted(node.settled) in (
            ["accepted", "modified", "rejected", "released"],
            ["accepted", "rejected", "released", "released"],
        )

    at(node, work)


def test_a_drain_is_answered_by_proton(node: ProtonNode) -> None:
    async def work(connection: AmqpConnection) -> None:
        await (await AmqpSender.open(connection, "queue")).send_batch([b"a", b"b"], as_data=True)
        receiver = await AmqpReceiver.open(connection, "queue", credit_count=0)
        receiver.grant(10)
        await receiver.drain()
        assert await bodies(receiver, 2) == [b"a", b"b"]
        assert await receiver.receive(0.02) is None

    at(node, work)


def test_an_anonymous_relay_and_a_request_with_its_answer_work(node: ProtonNode) -> None:
    async def work(connection: AmqpConnection) -> None:
        relay = await AmqpSender.open(connection, Target())
        await relay.send(
            encode_message(Message(properties=Properties(to="there"), body=AmqpValue("relayed")))
        )
        assert await bodies(await AmqpReceiver.open(connection, "there"), 1) == [b"relayed"]
        # Whoever receives from the node makes it answer.
        answering = await AmqpReceiver.open(connection, Source("service"))
        async with await AmqpRequester.open(connection, "service") as requester:
            assert requester.reply_to.startswith("temporary-")
            assert await requester.call("CLEAN", "shop") == "CLEAN done"
        await answering.close()

    at(node, work)


# TLS, at our own server: it has certificates here


def test_a_connection_is_encrypted_and_a_certificate_says_who_comes(tls_server: Server, keys: Path) -> None:
    async def work() -> None:
        url = f"amqps://{HOST}:{tls_server.amqp_tls_port}"
        context = ssl.create_default_context(cafile=str(keys / "ca.pem"))
        async with await AmqpConnection.connect_url(url, tls=context) as connection:
            await (await AmqpSender.open(connection, "encrypted")).send(data_section(b"x"))
        context.load_cert_chain(keys / "client.pem", keys / "client.key")
        async with await AmqpConnection.connect_url(url, tls=context, mechanism="EXTERNAL") as connection:
            await (await AmqpSender.open(connection, "encrypted")).send(data_section(b"x"))
        with pytest.raises(PeerUnreachable, match=r"certificate|CERTIFICATE"):
            await AmqpConnection.connect_url(url)
        with pytest.raises(PeerUnreachable):
            await AmqpConnection.connect_url(f"amqps://{HOST}:{tls_server.amqp_port}", tls=context)

    run(work)


@pytest.mark.clause("ES-31")
def test_what_is_sent_on_from_a_log_does_not_say_which_link_it_came_on(
    node: ProtonNode, server: Server, stream: str
) -> None:
    """Forwarding from a dynamic group of Headwater to a node of Proton."""
    with connected(server) as connection:
        make_log(connection, stream, 2, group_binding="dynamic")

    async def forward(target: AmqpConnection) -> None:
        async with await AmqpConnection.connect(Address(HOST, server.amqp_port)) as source:
            group = {"event-streams-consumer-group": "g"}
            receiver = await AmqpReceiver.open(source, stream, properties=group)
            await (await AmqpSender.open(source, stream)).send(data_section(b"an event"))
            came = await receiver.receive(WAIT_S)
            assert came is not None
            told = came.decode().delivery_annotations
            assert told is not None
            assert {"event-streams-source-partition", "event-streams-associated-partitions-changed"} <= set(
                told
            )
            await (await AmqpSender.open(target, "queue")).forward([came.data])
        (instructions,) = node.instructions
        assert set(instructions or {}) == {"event-streams-timestamp", "event-streams-offset"}

    at(node, forward)
