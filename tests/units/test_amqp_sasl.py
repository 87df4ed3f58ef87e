"""The SASL layer, at both ends: headers, turns, and what comes out of turn."""

from __future__ import annotations

import pytest

from headwater.amqp.definitions import Condition
from headwater.amqp.errors import FrameTooLarge, UnknownProtocol
from headwater.amqp.faults import ConnectionFault
from headwater.amqp.frames import (
    EMPTY_FRAME,
    FRAME_HEADER,
    ProtocolId,
    encode_frame,
    encode_sasl_frame,
    protocol_header,
)
from headwater.amqp.performatives import Open
from headwater.amqp.sasl import SASL_HEADER, SaslClient, SaslEvent, SaslFailed, SaslServer, SaslSkipped
from headwater.amqp.sasl_frames import (
    SaslBody,
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from headwater.encoding.amqp_types import Symbol
from headwater.errors import PeerError

INIT = SaslInit(Symbol("PLAIN"), b"\0user\0secret", "host")
MECHANISMS = SaslMechanisms((Symbol("PLAIN"), Symbol("SCRAM-SHA-256")))
GREETED = SASL_HEADER + encode_sasl_frame(MECHANISMS)


def told(machine: SaslServer | SaslClient, *said: SaslBody | bytes) -> list[SaslEvent]:
    """What a machine tells of these bytes, which come in one piece."""
    data = b"".join(each if isinstance(each, bytes) else encode_sasl_frame(each) for each in said)
    events, position = [], 0
    while position < len(data):
        event, position = machine.next_event(data, position, len(data))
        if event is None:
            break
        events.append(event)
    return events


def server() -> SaslServer:
    return SaslServer(("PLAIN", "SCRAM-SHA-256"))


@pytest.mark.clause("AMQP 5.3.2")
def test_a_conversation_takes_its_turns() -> None:
    machine, client = server(), SaslClient()
    assert bytes(client.data_to_send()) == SASL_HEADER
    assert told(machine, SASL_HEADER) == []
    assert bytes(machine.data_to_send()) == GREETED
    assert told(client, GREETED) == [MECHANISMS]
    client.start("SCRAM-SHA-256", b"first", "host")
    assert told(machine, bytes(client.data_to_send())) == [
        SaslInit(Symbol("SCRAM-SHA-256"), b"first", "host")
    ]
    for number in range(3):
        machine.challenge(b"challenge %d" % number)
        assert told(client, bytes(machine.data_to_send())) == [SaslChallenge(b"challenge %d" % number)]
        client.respond(b"response %d" % number)
        assert told(machine, bytes(client.data_to_send())) == [SaslResponse(b"response %d" % number)]
    assert not client.is_over
    machine.finish(SaslCode.OK, b"server final")
    assert told(client, bytes(machine.data_to_send())) == [SaslOutcome(SaslCode.OK, b"server final")]
    assert client.is_over


@pytest.mark.clause("AMQP 5.3.2")
@pytest.mark.parametrize("code", SaslCode)
def test_every_outcome_is_told(code: SaslCode) -> None:
    machine, client = server(), SaslClient()
    told(machine, SASL_HEADER, INIT)
    told(client, GREETED)
    client.start("PLAIN", b"x", None)
    machine.data_to_send()
    machine.finish(code)
    assert told(client, bytes(machine.data_to_send())) == [SaslOutcome(code, None)]


def test_header_and_init_may_come_in_one_piece_or_cut_anywhere() -> None:
    data = SASL_HEADER + encode_sasl_frame(INIT)
    assert told(server(), data) == [INIT]
    for cut in range(len(data)):
        machine = server()
        event, position = machine.next_event(data, 0, cut)
        assert event is None
        assert machine.next_event(data, position, len(data)) == (INIT, len(data))


def test_what_comes_behind_init_is_left_for_whoever_reads_it() -> None:
    data = SASL_HEADER + encode_sasl_frame(INIT) + protocol_header(ProtocolId.AMQP)
    event, position = server().next_event(data, 0, len(data))
    assert event == INIT
    assert data[position:] == protocol_header(ProtocolId.AMQP)


@pytest.mark.clause("AMQP 5.3.2")
def test_a_client_without_sasl_is_told_apart_and_can_be_told_to_use_it() -> None:
    machine = server()
    header = protocol_header(ProtocolId.AMQP)
    event, position = machine.next_event(header, 0, len(header))
    assert isinstance(event, SaslSkipped)
    assert position == 0, "the header is the connection's to read"
    assert not machine.data_to_send()
    machine.require()
    assert bytes(machine.data_to_send()) == SASL_HEADER


@pytest.mark.clause("AMQP 5.3.2", "AMQP 2.2")
@pytest.mark.parametrize(
    "header", [b"GET / HT", b"AMQP\x03\x02\x00\x00", protocol_header(ProtocolId.TLS), b"X"]
)
def test_another_protocol_is_answered_with_the_header_of_sasl(header: bytes) -> None:
    machine = server()
    (event,) = told(machine, header)
    assert isinstance(event, SaslFailed)
    assert bytes(machine.data_to_send()) == SASL_HEADER


OUT_OF_TURN: list[tuple[list[SaslBody | bytes], str]] = [
    ([SaslResponse(b"x")], "SaslResponse"),
    ([MECHANISMS], "SaslMechanisms"),
    ([SaslOutcome(SaslCode.OK)], "SaslOutcome"),
    ([SaslChallenge(b"x")], "SaslChallenge"),
    ([INIT, INIT], "SaslInit"),
    ([INIT, SaslResponse(b"x")], "SaslResponse"),
    ([encode_frame(0, Open("x"))], "AMQP"),
    ([EMPTY_FRAME], "AMQP"),
    ([b"\x00\x00\x00\x07\x02\x01\x00\x00"], "frame header"),
    ([FRAME_HEADER.pack(513, 2, 1, 0)], "512"),
    ([FRAME_HEADER.pack(8, 2, 1, 0)], "end"),
    ([FRAME_HEADER.pack(12, 2, 1, 0) + b"rubb"], "parse"),
]


@pytest.mark.clause("AMQP 5.3.2")
@pytest.mark.parametrize(("said", "reason"), OUT_OF_TURN)
def test_a_client_that_speaks_out_of_turn_has_failed(said: list[SaslBody | bytes], reason: str) -> None:
    machine = server()
    event = told(machine, SASL_HEADER, *said)[-1]
    assert isinstance(event, SaslFailed)
    assert reason in event.reason
    assert bytes(machine.data_to_send()) == GREETED
    assert isinstance(told(machine, INIT)[-1], SaslFailed), "and stays so"


@pytest.mark.clause("AMQP 5.3.2")
@pytest.mark.parametrize(
    "said",
    [
        [SaslOutcome(SaslCode.OK)],
        [SaslChallenge(b"x")],
        [INIT],
        [MECHANISMS, MECHANISMS],
        [MECHANISMS, SaslOutcome(SaslCode.OK)],
    ],
)
def test_a_server_that_speaks_out_of_turn_breaks_the_connection(said: list[SaslBody]) -> None:
    with pytest.raises(ConnectionFault) as raised:
        told(SaslClient(), SASL_HEADER, *said)
    assert raised.value.condition == Condition.NOT_ALLOWED


@pytest.mark.clause("AMQP 5.3.2")
def test_a_server_that_asks_again_before_it_was_answered_breaks_the_connection() -> None:
    client = SaslClient()
    told(client, GREETED)
    client.start("SCRAM-SHA-256", b"first", None)
    assert told(client, SaslChallenge(b"one")) == [SaslChallenge(b"one")]
    with pytest.raises(ConnectionFault):
        told(client, SaslChallenge(b"two"))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (protocol_header(ProtocolId.AMQP), ConnectionFault),
        (b"HTTP/1.1", UnknownProtocol),
        (SASL_HEADER + FRAME_HEADER.pack(513, 2, 1, 0), FrameTooLarge),
        (SASL_HEADER + encode_frame(0, Open("x")), PeerError),
    ],
)
def test_a_server_of_something_else_breaks_the_connection(data: bytes, error: type[PeerError]) -> None:
    with pytest.raises(error):
        told(SaslClient(), data)


def test_a_client_waits_for_whole_frames() -> None:
    client = SaslClient()
    assert client.next_event(GREETED, 0, 5) == (None, 0)
    assert client.next_event(GREETED, 0, 8) == (None, 8)
    assert client.next_event(GREETED, 8, len(GREETED) - 1) == (None, 8)
    assert client.next_event(GREETED, 8, len(GREETED)) == (MECHANISMS, len(GREETED))


def test_no_secret_is_in_what_a_failure_says() -> None:
    machine = server()
    broken = encode_sasl_frame(INIT).replace(b"\xa3\x05PLAIN", b"\xa1\x05PLAIN")
    (event,) = told(machine, SASL_HEADER, broken)
    assert isinstance(event, SaslFailed)
    assert "secret" not in event.reason
