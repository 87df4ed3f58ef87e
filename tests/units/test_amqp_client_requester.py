"""Requests to nodes such as `$management`: answers find their requests, and what does not come is given up."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.events import Deliveries, Event, LinkAttached
from headwater.amqp.messaging import Source, Target
from headwater.amqp.sasl import SaslEvent
from headwater.amqp.sender_link import SenderLink
from headwater.client import amqp_requester
from headwater.client.amqp_errors import LinkEnded, LinkRefused, ManagementRefused
from headwater.client.amqp_requester import AmqpRequester
from headwater.client.errors import RequestTimedOut
from headwater.encoding.amqp_message import AmqpValue, Message, Properties, decode_message, encode_message
from tests.amqp_node import WAIT_S, AmqpNode, talk, wait_for
from tests.stream_peer import run


def asked(peer: AmqpNode) -> list[Message]:
    """The requests that came."""
    return [decode_message(body, 0, len(body)) for body in peer.bodies]


def names_dynamic_nodes(peer: AmqpNode, event: Event | SaslEvent) -> bool:
    if isinstance(event, LinkAttached) and isinstance(event.link, SenderLink):
        source = event.link.remote.source
        assert isinstance(source, Source)
        if source.dynamic:
            event.link.accept(msgspec.structs.replace(source, address="reply-1"), Target())
            return True
    return False


def reply(
    peer: AmqpNode, request: Message, value: object, status: object = 200, text: str | None = None
) -> None:
    """Answer a request."""
    assert request.properties is not None
    said = {"statusCode": status, "statusDescription": text}
    message = Message(
        properties=Properties(correlation_id=request.properties.message_id),
        application_properties={name: value for name, value in said.items() if value is not None},
        body=AmqpValue(value),
    )
    peer.sender.send(encode_message(message))
    peer.flush()


def test_answers_find_their_requests_in_whatever_order_they_come() -> None:
    async def work() -> None:
        async with talk(names_dynamic_nodes) as (connection, peer):
            async with await AmqpRequester.open(connection) as requester:
                assert requester.reply_to == "reply-1"
                calls = [
                    asyncio.ensure_future(requester.call("READ", "log", {"name": name})) for name in "abc"
                ]
                await wait_for(lambda: len(peer.bodies) == 3)
                for request in reversed(asked(peer)):
                    assert request.properties is not None
                    assert request.properties.reply_to == "reply-1"
                    said = request.application_properties or {}
                    assert (said["operation"], said["type"]) == ("READ", "log")
                    reply(peer, request, said["name"])
                assert [await call for call in calls] == ["a", "b", "c"]
            assert peer.receiver.remote.target == Target("$management")

    run(work)


def test_answers_can_come_from_the_node_itself_to_an_address_of_ours() -> None:
    async def work() -> None:
        async with talk() as (connection, peer):
            requester = await AmqpRequester.open(
                connection, "/management", reply_address="$me", properties={"paired": True}
            )
            answer = asyncio.ensure_future(requester.request(Message(properties=Properties(subject="GET"))))
            await wait_for(lambda: len(peer.bodies) == 1)
            (request,) = asked(peer)
            assert request.properties is not None
            assert (request.properties.reply_to, request.properties.subject) == ("$me", "GET")
            reply(peer, request, "here")
            assert (await answer).body == AmqpValue("here")
            down, up = peer.sender.remote, peer.receiver.remote
            assert (down.source, down.target) == (Source("/management"), Target("$me"))
            assert down.name == up.name
            assert down.properties == up.properties == {"paired": True}
            await requester.close()

    run(work)


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (404, "there is no log 'x'", "there is no log 'x'"),
        (500, None, "no reason"),
        ("200", None, "status 0"),
    ],
)
def test_a_status_that_is_no_success_is_a_refusal(status: object, text: str | None, said: str) -> None:
    async def work() -> None:
        async with talk(names_dynamic_nodes) as (connection, peer):
            requester = await AmqpRequester.open(connection)
            call = asyncio.ensure_future(requester.call("DELETE", "log", {"name": "x"}))
            await wait_for(lambda: peer.bodies)
            reply(peer, asked(peer)[0], None, status, text)
            with pytest.raises(ManagementRefused, match=said) as caught:
                await call
            assert caught.value.status == (status if isinstance(status, int) else 0)
            await requester.close()

    run(work)


def test_an_answer_that_does_not_come_is_given_up_and_strange_ones_are_passed_over() -> None:
    async def work() -> None:
        async with talk(names_dynamic_nodes) as (connection, peer):
            requester = await AmqpRequester.open(connection)
            with pytest.raises(RequestTimedOut, match=r"a request to \$management within 0\.05 s"):
                await requester.call("READ", "log", timeout_s=0.05)
            await wait_for(lambda: peer.bodies)
            late = asked(peer)[0]
            reply(peer, late, "late")
            peer.sender.send(b"no message")
            peer.sender.send(encode_message(Message(body=AmqpValue(1))))
            peer.sender.send(encode_message(Message(properties=Properties(correlation_id=b"other"))))
            call = asyncio.ensure_future(requester.call("READ", "log", timeout_s=WAIT_S))
            await wait_for(lambda: len(peer.bodies) == 2)
            reply(peer, asked(peer)[1], "in time")
            assert await call == "in time"
            await requester.close()

    run(work)


def test_no_more_requests_are_unanswered_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_requester, "REQUESTS_MAX", 2)

    async def work() -> None:
        async with talk(names_dynamic_nodes) as (connection, peer):
            requester = await AmqpRequester.open(connection)
            calls = [asyncio.ensure_future(requester.call("READ", "log")) for _ in range(3)]
            await wait_for(lambda: len(peer.bodies) == 2)
            await asyncio.sleep(0.02)
            assert len(peer.bodies) == 2
            reply(peer, asked(peer)[0], 1)
            await wait_for(lambda: len(peer.bodies) == 3)
            for request in asked(peer)[1:]:
                reply(peer, request, 1)
            await asyncio.gather(*calls)
            await requester.close()

    run(work)


def test_requests_fail_when_their_links_go() -> None:
    gone = ErrorValue(Condition.LINK_DETACH_FORCED, "no more management")

    async def work() -> None:
        async with talk(names_dynamic_nodes) as (connection, peer):
            requester = await AmqpRequester.open(connection)
            call = asyncio.ensure_future(requester.call("READ", "log"))
            await wait_for(lambda: peer.bodies)
            peer.sender.detach(gone)
            peer.flush()
            with pytest.raises(LinkEnded, match="no more management"):
                await call
            with pytest.raises(LinkEnded, match="no more management"):
                await requester.call("READ", "log")
            await requester.close()
            other = await AmqpRequester.open(connection)
            unanswered = asyncio.ensure_future(other.request(Message()))
            await wait_for(lambda: sum(isinstance(event, Deliveries) for event in peer.events) == 2)
            await other.close()
            with pytest.raises(LinkEnded, match="closed here"):
                await unanswered

    run(work)


def test_a_node_that_takes_no_requests_refuses_both_links() -> None:
    error = ErrorValue(Condition.NOT_FOUND, "there is no such node")

    def refuse(_: AmqpNode, event: Event | SaslEvent) -> bool:
        if isinstance(event, LinkAttached):
            event.link.refuse(error)
        return isinstance(event, LinkAttached)

    async def work() -> None:
        async with talk(refuse) as (connection, _):
            with pytest.raises(LinkRefused, match="there is no such node"):
                await AmqpRequester.open(connection)
            assert connection.error is None

    run(work)


def test_a_dynamic_node_without_an_address_is_of_no_use() -> None:
    async def work() -> None:
        async with talk() as (connection, _):
            with pytest.raises(LinkEnded, match="gave it no address"):
                await AmqpRequester.open(connection)

    run(work)
