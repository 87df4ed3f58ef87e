"""What real AMQP clients were seen to do, and the answers that they need: go-amqp, Qpid JMS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Source, Target, TerminusDurability
from headwater.amqp.performatives import Detach, End, Flow
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, data

TOPIC, QUEUE = Symbol("topic"), Symbol("queue")
SELECTOR = {Symbol("jms-selector"): Described(Ulong(0x468C00000004), "color = 'red'")}
NO_LOCAL = {Symbol("no-local"): Described(Ulong(0x468C00000003), "NoLocalFilter{}")}


# go-amqp


def test_an_end_of_a_session_that_was_given_up_before_it_began_is_passed_over(
    peer: AmqpWire, log: str
) -> None:
    peer.send(End(), channel=7)
    peer.sender(log)
    peer.publish([data(b"still there")])


@pytest.mark.clause("AMQP flow 2")
def test_a_drain_with_a_credit_of_0_is_answered(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    peer.receiver(log, handle=1, credit=0)
    for _ in range(2):
        peer.credit(0, 1, drain=True)
        answer = peer.take(Flow)
        assert (answer.drain, answer.link_credit, answer.delivery_count) == (True, 0, 0)


@pytest.mark.clause("AMQP flow 2")
def test_a_drain_whose_credit_is_used_up_is_answered_behind_the_last_message(
    peer: AmqpWire, log: str
) -> None:
    peer.sender(log)
    peer.publish([data(b"%d" % number) for number in range(5)])
    peer.receiver(log, handle=1, credit=0)
    peer.credit(3, 1, drain=True)
    peer.messages(3)
    answer = peer.take(Flow)
    assert (answer.drain, answer.link_credit, answer.delivery_count) == (True, 0, 3)


@pytest.mark.clause("AMQP flow 5")
@pytest.mark.parametrize("above", [0, 1])
def test_a_receiver_gets_no_message_above_its_maximum(peer: AmqpWire, log: str, above: int) -> None:
    peer.sender(log)
    peer.publish([data(bytes(10)), data(bytes(1000)), data(bytes(10))])
    peer.receiver(log, handle=1)
    sizes = [len(peer.next().payload) for _ in range(3)]
    peer.receiver(log, handle=2, max_message_size=sizes[1] - above)
    if above:
        peer.message()
        error = peer.assert_detaches(Condition.LINK_MESSAGE_SIZE_EXCEEDED, 2)
        assert f"the message at offset 1 has {sizes[1]} bytes" in str(error.description)
    else:
        assert [len(peer.next().payload) for _ in range(3)] == sizes


# Qpid JMS


def jms_source(address: str, kind: Symbol = TOPIC, **fields: Any) -> Source:
    return Source(address, capabilities=(kind,), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"filter": NO_LOCAL},
        {"filter": {**FIRST, **SELECTOR, **NO_LOCAL}},
    ],
)
def test_who_does_not_look_at_what_it_is_granted_is_refused(
    peer: AmqpWire, log: str, fields: dict[str, Any]
) -> None:
    peer.sender(log)
    for kind in (TOPIC, QUEUE):
        source = jms_source(log, kind, **fields)
        peer.refused(Condition.NOT_IMPLEMENTED, Role.RECEIVER, source, Target(), handle=1)


def test_a_subscription_that_is_refused_makes_no_log(peer: AmqpWire, log: str) -> None:
    durable = jms_source(log, durable=TerminusDurability.UNSETTLED_STATE, filter=NO_LOCAL)
    peer.refused(Condition.NOT_IMPLEMENTED, Role.RECEIVER, durable, Target())
    peer.refused(Condition.NOT_FOUND, Role.RECEIVER, Source(log), Target())


def test_a_browser_of_a_queue_begins_at_the_first_message_and_its_consumer_with_the_next(
    peer: AmqpWire, log: str
) -> None:
    peer.sender(log)
    peer.publish([data(b"first")])
    browsed = jms_source(log, QUEUE, distribution_mode=Symbol("copy"))
    for handle, source in enumerate([jms_source(log, QUEUE), browsed], 1):
        answer = peer.attach(Role.RECEIVER, source, Target(), handle=handle)
        assert answer.source is not None
        peer.credit(10, handle)
    assert peer.message().offset == 0
    peer.assert_nothing_came()


@pytest.mark.clause("AMQP links 7")
def test_an_answer_to_a_dynamic_node_that_is_gone_makes_no_log(peer: AmqpWire) -> None:
    answer = peer.attach(Role.RECEIVER, Source(dynamic=True), Target())
    assert isinstance(answer.source, Source)
    address = answer.source.address
    peer.send(Detach(0, closed=True))
    peer.take(Detach)
    error = peer.refused(Condition.NOT_FOUND, Role.SENDER, Source(), Target(address))
    assert "whoever asked for this dynamic node is gone" in str(error.description)
    peer.sender("dynamic-prices")


@pytest.mark.clause("AMQP links 7")
def test_dynamic_nodes_that_a_killed_server_left_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    alike = "dynamic-0123456789abcdef"
    with ListeningAmqp(tmp_path) as before, before.connect() as peer:
        peer.sender(alike.replace("dynamic", "prices"))
        before.call(lambda: before.store.create_log(alike))
        # As if its link ended with the server.
        (container,) = [each.container for each in before.amqp.connections]
        assert container is not None
        left = before.call(lambda: before.amqp.nodes.dynamic(container.identity, "/", "peer")).name
    with ListeningAmqp(tmp_path) as after:
        assert ("/", left) in after.store.logs
        after.call(after.amqp.nodes.delete_left_over)
        assert set(after.store.logs) == {("/", alike), ("/", alike.replace("dynamic", "prices"))}
