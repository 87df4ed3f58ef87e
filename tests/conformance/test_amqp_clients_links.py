"""What AMQP clients need of links: attached or refused, named, numbered, detached, stolen, relayed, made on demand."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest

from headwater.amqp.definitions import Condition, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.messaging import (
    Accepted,
    Rejected,
    Source,
    Target,
    TerminusDurability,
    TerminusExpiryPolicy,
)
from headwater.amqp.performatives import Attach, Begin, Detach, Disposition, Flow
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_message import AmqpValue, Data, Message, Properties, encode_message
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from tests.amqp_frames import compound, described
from tests.amqp_frames import frame as hand_made_frame
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import FIRST, AmqpWire, data, from_offset, transfer
from tests.conformance.conftest import ConnectAmqp

SELECTOR = Symbol("apache.org:selector-filter:string")
LIFETIME = Symbol("lifetime-policy")
DELETE_ON_CLOSE = Described(Symbol("amqp:delete-on-close:list"), [])


@pytest.mark.clause("AMQP links 1")
def test_a_refused_attach_is_answered_without_its_terminus_and_then_closed(peer: AmqpWire) -> None:
    peer.refused(Condition.NOT_FOUND, Role.RECEIVER, Source("missing"), Target("mine"))
    peer.refused(Condition.NOT_FOUND, Role.RECEIVER, None, Target())
    peer.refused(Condition.INVALID_FIELD, Role.RECEIVER, Source(), Target())
    peer.refused(Condition.NOT_FOUND, Role.SENDER, Source("mine"), Target("$unknown"))
    peer.refused(Condition.NOT_IMPLEMENTED, Role.SENDER, Source(), Described(Ulong(99), []))


@pytest.mark.clause("AMQP links 1")
def test_what_is_pipelined_behind_an_attach_that_is_refused_is_passed_over(peer: AmqpWire) -> None:
    peer.send(
        Attach("up", 0, Role.SENDER, source=Source(), target=Target("$no"), initial_delivery_count=0),
        transfer(0, data(b"x")),
        Flow(0, 100, 1, 100, 0, 0, 5),
        Disposition(Role.SENDER, 0, settled=True),
    )
    assert peer.take(Attach).target is None
    peer.assert_detaches(Condition.NOT_FOUND)


@pytest.mark.clause("AMQP links 2")
@pytest.mark.parametrize("initial", [0, 1, 5, 2**31 - 2, 2**32 - 3])
def test_a_sender_counts_from_where_it_likes_and_past_the_end_of_32_bits(
    connect_amqp: ConnectAmqp, log: str, initial: int
) -> None:
    wire = connect_amqp(session=False)
    wire.send(Begin(None, initial, 1 << 20, 1 << 20))
    wire.take(Begin)
    flow = wire.sender(log, initial_delivery_count=initial)
    assert flow.delivery_count == initial
    ids = [(initial + number) % 2**32 for number in range(8)]
    wire.send(b"".join(transfer(id_, data(b"%d" % id_)) for id_ in ids))
    assert set(wire.outcomes(ids).values()) == {Accepted()}
    wire.send(Flow(0, 100, (initial + 8) % 2**32, 100, 0, (initial + 8) % 2**32, 0, echo=True))
    assert wire.take(Flow).delivery_count == (initial + 8) % 2**32


@pytest.mark.clause("AMQP links 2")
def test_our_senders_say_their_initial_delivery_count_and_our_receivers_none(
    peer: AmqpWire, log: str
) -> None:
    up = peer.attach(Role.SENDER, Source(), Target(log), initial_delivery_count=7)
    assert up.initial_delivery_count is None
    assert peer.take(Flow).delivery_count == 7
    assert peer.receiver(log, handle=1, credit=0).initial_delivery_count == 0


@pytest.mark.clause("AMQP links 3")
@pytest.mark.parametrize(
    "sent", [transfer(0, data(b"x"), 9), Flow(0, 9, 0, 9, 9, 0, 1), Detach(9), Detach(9, closed=True)]
)
def test_an_unknown_handle_ends_the_session_and_not_the_connection(
    connect_amqp: ConnectAmqp, log: str, sent: bytes | Flow | Detach
) -> None:
    wire = connect_amqp()
    wire.begin(1)
    wire.send(sent)
    wire.assert_ends(Condition.SESSION_UNATTACHED_HANDLE)
    wire.assert_nothing_came(1)
    wire.begin()
    wire.sender(log)
    wire.publish([data(b"goes on")])


@pytest.mark.clause("AMQP links 3")
def test_a_handle_in_use_ends_the_session_and_not_the_connection(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    peer.send(Attach("other", 0, Role.SENDER, source=Source(), target=Target(log), initial_delivery_count=0))
    peer.assert_ends(Condition.SESSION_HANDLE_IN_USE)
    peer.begin()
    peer.sender(log)


@pytest.mark.clause("AMQP links 4")
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("role", list(Role))
def test_a_detach_is_answered_in_kind_and_its_handle_is_free(
    peer: AmqpWire, log: str, role: Role, *, closed: bool
) -> None:
    peer.sender(log)
    if role is Role.RECEIVER:
        peer.receiver(log, handle=1)
    handle = 1 if role is Role.RECEIVER else 0
    for _ in range(3):
        peer.send(Detach(handle, closed=closed))
        answer = peer.take(Detach)
        assert (answer.handle, answer.closed, answer.error) == (handle, closed, None)
        if role is Role.RECEIVER:
            peer.receiver(log, handle=1)
        else:
            peer.sender(log)


@pytest.mark.clause("AMQP links 4")
def test_a_terminus_is_answered_with_what_it_is(peer: AmqpWire, log: str) -> None:
    lasting: Any = {"expiry_policy": TerminusExpiryPolicy.NEVER, "timeout": 9}
    peer.sender(log)
    for handle, durable in enumerate(TerminusDurability, 1):
        given = peer.attach(
            Role.RECEIVER, Source(log, durable=durable, **lasting), Target(), handle=handle
        ).source
        assert isinstance(given, Source)
        is_kept = durable is not TerminusDurability.NONE
        assert given.durable is durable
        assert given.expiry_policy == (
            TerminusExpiryPolicy.NEVER if is_kept else TerminusExpiryPolicy.LINK_DETACH
        )
        assert given.timeout == (9 if is_kept else 0)


@pytest.mark.clause("AMQP links 5")
@pytest.mark.parametrize("role", list(Role))
def test_a_link_that_is_attached_again_by_its_container_is_stolen(
    connect_amqp: ConnectAmqp, log: str, role: Role
) -> None:
    old, new = (connect_amqp(fields={"container_id": "the same"}) for _ in range(2))
    other = connect_amqp(fields={"container_id": "another one"})
    other.sender(log, name="mine")

    def attach(wire: AmqpWire) -> None:
        if role is Role.SENDER:
            wire.sender(log, name="mine")
        else:
            wire.receiver(log, name="mine", credit=0)

    attach(old)
    attach(new)
    old.assert_detaches(Condition.LINK_STOLEN)
    attach(old)
    new.assert_detaches(Condition.LINK_STOLEN)
    other.publish([data(b"another container's link of that name stays")])


@pytest.mark.clause("AMQP links 5")
def test_links_of_one_name_in_both_directions_and_of_several_users_are_different_ones(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    amqp_door.add_user("somebody")
    amqp_door.permit("somebody", ".*", ".*", ".*")
    fields = {"container_id": "twice"}
    one, two = connect_amqp(fields=fields), connect_amqp(user="somebody", password="pencil", fields=fields)
    for wire in (one, two):
        wire.sender(log, name="n")
        wire.receiver(log, name="n", handle=1, filter=None)
    for wire in (one, two):
        wire.assert_nothing_came()


@pytest.mark.clause("AMQP links 6")
def test_a_link_without_a_target_address_takes_each_message_where_it_says(
    peer: AmqpWire, connect_amqp: ConnectAmqp, log: str
) -> None:
    names = [f"{log}-a", f"{log}-b"]
    peer.sender(None)
    payloads = [
        encode_message(Message(properties=Properties(to=names[number % 2]), body=Data((b"%d" % number,))))
        for number in range(10)
    ]
    peer.publish(payloads)
    for number, name in enumerate(names):
        wire = connect_amqp()
        wire.receiver(name)
        assert [each.record for each in wire.messages(5)] == payloads[number::2]


@pytest.mark.clause("AMQP links 6")
def test_a_null_target_is_a_relay_too_and_is_answered_with_a_target(peer: AmqpWire, log: str) -> None:
    answer = peer.attach(Role.SENDER, Source(), None)
    assert isinstance(answer.target, Target)
    assert answer.target.address is None
    peer.take(Flow)
    peer.publish([encode_message(Message(properties=Properties(to=log), body=AmqpValue("x")))])


@pytest.mark.clause("AMQP links 6")
def test_a_relay_rejects_the_one_message_that_can_go_nowhere(
    connect_amqp: ConnectAmqp, amqp_door: ListeningAmqp, log: str
) -> None:
    user = f"relayed-{log}"
    amqp_door.add_user(user)
    amqp_door.permit(user, configure=log, write=f"{log}|missing", read="")
    wire = connect_amqp(user=user, password="pencil")

    def to(address: str | None) -> bytes:
        return encode_message(Message(properties=Properties(to=address), body=Data((b"x",))))

    wire.sender(None)
    broken = b"\x00\x53\x73\xc0\x03\x01\xa1\xff" + data(b"x")
    payloads = [to(log), to(None), data(b"x"), to("secret"), to("missing"), to(""), broken, b"", to(log)]
    wire.send(b"".join(transfer(number, payload) for number, payload in enumerate(payloads)))
    outcomes = wire.outcomes(range(len(payloads)))
    conditions = [
        state.error.condition if isinstance(state, Rejected) and state.error is not None else None
        for _, state in sorted(outcomes.items())
    ]
    assert conditions == [
        None,
        Condition.PRECONDITION_FAILED,
        Condition.PRECONDITION_FAILED,
        Condition.UNAUTHORIZED_ACCESS,
        Condition.UNAUTHORIZED_ACCESS,
        Condition.UNAUTHORIZED_ACCESS,
        Condition.DECODE_ERROR,
        Condition.PRECONDITION_FAILED,
        None,
    ]
    wire.assert_nothing_came()


@pytest.mark.clause("AMQP links 6")
def test_the_relay_is_offered_and_no_capability_that_is_not_there(amqp_door: ListeningAmqp) -> None:
    with amqp_door.raw() as wire:
        wire.greet()
        opened = wire.open(desired_capabilities=(Symbol("ANONYMOUS-RELAY"), Symbol("DELAYED_DELIVERY")))
        assert opened.offered_capabilities == ("ANONYMOUS-RELAY", "AMQP_EVENT_STREAMS_V1_0", "SHARED-SUBS")


@pytest.mark.clause("AMQP links 7")
def test_a_dynamic_target_gets_an_address_others_can_read_and_goes_with_its_link(
    peer: AmqpWire, connect_amqp: ConnectAmqp
) -> None:
    answer = peer.attach(Role.SENDER, Source(), Target(dynamic=True))
    assert isinstance(answer.target, Target)
    address = answer.target.address
    assert address
    assert answer.target.dynamic
    peer.take(Flow)
    reader = connect_amqp()
    reader.receiver(address)
    peer.publish([data(b"hello")])
    assert reader.message().record == data(b"hello")
    peer.send(Detach(0, closed=True))
    peer.take(Detach)
    reader.assert_detaches(Condition.RESOURCE_DELETED)
    reader.refused(Condition.NOT_FOUND, Role.RECEIVER, Source(address), Target())


@pytest.mark.clause("AMQP links 7")
def test_a_dynamic_source_is_an_address_for_answers_and_goes_with_its_connection(
    amqp_door: ListeningAmqp, connect_amqp: ConnectAmqp
) -> None:
    writer = connect_amqp()
    with amqp_door.connect() as asking:
        wanted = Source(dynamic=True, dynamic_node_properties={LIFETIME: DELETE_ON_CLOSE})
        source = asking.attach(Role.RECEIVER, wanted, Target()).source
        assert isinstance(source, Source)
        assert source.address
        asking.credit(10)
        writer.sender(source.address)
        writer.publish([data(b"the answer")])
        assert asking.message().record == data(b"the answer")
    writer.assert_detaches(Condition.RESOURCE_DELETED)


@pytest.mark.clause("AMQP links 8")
def test_transactions_are_refused_cleanly(peer: AmqpWire, log: str) -> None:
    peer.refused(Condition.NOT_IMPLEMENTED, Role.SENDER, Source(), Coordinator())
    peer.refused(
        Condition.NOT_IMPLEMENTED, Role.SENDER, Source(), Coordinator((Symbol("amqp:local-transactions"),))
    )
    peer.sender(log)
    peer.send(transfer(0, data(b"x"), state=Described(Ulong(0x34), [b"txn", None])))
    peer.assert_detaches(Condition.NOT_IMPLEMENTED)


@pytest.mark.clause("AMQP links 9")
@pytest.mark.parametrize("send_mode", list(SenderSettleMode))
@pytest.mark.parametrize("receive_mode", list(ReceiverSettleMode))
def test_both_settle_modes_are_granted_as_asked_for(
    peer: AmqpWire, log: str, send_mode: SenderSettleMode, receive_mode: ReceiverSettleMode
) -> None:
    modes = {"snd_settle_mode": send_mode, "rcv_settle_mode": receive_mode}
    for handle, role in enumerate(Role):
        source, target = (Source(), Target(log)) if role is Role.SENDER else (Source(log), Target())
        answer = peer.attach(role, source, target, handle=handle, **modes)
        assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (send_mode, receive_mode)
        if role is Role.SENDER:
            peer.take(Flow)


@pytest.mark.clause("AMQP encoding 3")
def test_outcomes_and_capabilities_come_as_arrays(peer: AmqpWire, log: str) -> None:
    peer.sender(log)
    source = peer.attach(
        Role.RECEIVER, Source(log, capabilities=(Symbol("topic"), Symbol("queue"))), Target(), handle=1
    ).source
    assert isinstance(source, Source)
    assert source.capabilities == ("topic",)
    assert set(source.outcomes) == {
        f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified")
    }


@pytest.mark.clause("AMQP encoding 4")
@pytest.mark.parametrize("value", ["first", Described(Symbol("rabbitmq:stream-offset-spec"), "first")])
def test_just_the_filters_that_are_applied_are_echoed(peer: AmqpWire, log: str, value: object) -> None:
    peer.sender(log)
    name = Symbol("rabbitmq:stream-offset-spec")
    selector = Described(Ulong(0x468C00000004), "a = 1")
    unknown = {Symbol("mine"): Described(Symbol("example.com:filter"), "a = 1")}
    source = peer.receiver(log, handle=1, filter={name: value, SELECTOR: selector, **unknown}).source
    assert isinstance(source, Source)
    assert source.filter == {name: value, SELECTOR: selector}
    source = peer.receiver(log, handle=2, filter=unknown).source
    assert isinstance(source, Source)
    assert source.filter is None


@pytest.mark.clause("AMQP encoding 4")
@pytest.mark.parametrize("value", ["middle", -1, True, 1.5, None, Symbol("x"), [1], b"first"])
def test_an_offset_that_is_none_refuses_the_link(peer: AmqpWire, log: str, value: object) -> None:
    peer.sender(log)
    peer.refused(
        Condition.INVALID_FIELD, Role.RECEIVER, Source(log, filter=from_offset(value)), Target(), handle=1
    )


@pytest.mark.clause("AMQP encoding 2")
def test_lists_may_be_trimmed_and_descriptors_be_of_any_form(peer: AmqpWire, log: str) -> None:
    for handle, form in enumerate((0x53, 0x80, 0xA3)):
        names = {0x12: b"amqp:attach:list", 0x29: b"amqp:target:list"}
        wide = form == 0x80

        def named(code: int, value: bytes, form: int = form, names: dict[int, bytes] = names) -> bytes:
            if form == 0xA3:
                return b"\0\xa3" + bytes((len(names[code]),)) + names[code] + value
            return described(code, value, form)

        text = log.encode()
        target = named(0x29, compound([b"\xa1" + bytes((len(text),)) + text], wide=wide))
        name = b"\xa1\x02t" + bytes((0x30 + handle,))
        fields = [name, b"\x52" + bytes((handle,)), b"\x42", b"\x40", b"\x40", b"\x40", target]
        peer.send(hand_made_frame(0, named(0x12, compound(fields, wide=wide))))
        answer = peer.take(Attach)
        assert isinstance(answer.target, Target)
        assert answer.target.address == log
        peer.take(Flow)
    trimmed = struct.pack(">IBBH", 8 + 3 + 1, 2, 0, 0) + b"\0\x53\x17\x45"
    peer.send(trimmed)
    assert peer.next().performative is not None


@pytest.mark.clause("AMQP links 1")
def test_links_come_and_go_by_the_thousand_and_leave_nothing(
    amqp_door: ListeningAmqp, peer: AmqpWire, log: str
) -> None:
    peer.sender(log, name="keeps the log")
    for handle, number in zip(itertools.cycle((1, 2, 3)), range(1000)):
        if number % 2:
            peer.receiver(log, handle=handle, name=f"n{number}", filter=FIRST)
        else:
            peer.sender(log, handle=handle, name=f"n{number}")
        peer.send(Detach(handle, closed=True))
        peer.take(Detach)
    (partition,) = amqp_door.store.log(log).partitions
    assert amqp_door.call(lambda: (len(partition.on_committed), len(partition.on_deleted))) == (0, 1)
