"""The parsers of what AMQP 1.0 peers send: headers, frames, performatives, SASL bodies, values and messages."""

from __future__ import annotations

from fuzz.targets import check, target
from headwater.amqp.definitions import Condition, ErrorValue, Role
from headwater.amqp.errors import UnknownProtocol
from headwater.amqp.frames import (
    EMPTY_FRAME,
    FrameType,
    ProtocolId,
    encode_frame,
    encode_sasl_frame,
    frame_bytes_missing,
    protocol_header,
    read_frame,
    read_protocol_header,
)
from headwater.amqp.messaging import Accepted, Modified, Received, Source, Target
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
    encode_performative,
)
from headwater.amqp.sasl_frames import (
    SaslBody,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_sasl,
    encode_sasl,
)
from headwater.encoding.amqp_decoder import decode, skip
from headwater.encoding.amqp_encoder import encode
from headwater.encoding.amqp_message import (
    AmqpSequence,
    AmqpValue,
    Data,
    Header,
    Message,
    Properties,
    body_of,
    data_section,
    decode_message,
    encode_message,
    read_sections,
)
from headwater.encoding.amqp_types import Array, Described, Symbol, Uint, Ulong
from headwater.errors import MalformedValue, PeerError

__all__: list[str] = []

_FRAME_SIZE_BYTES_MAX = 1024
_NAME = Symbol("amqp:accepted:list")
_FIELDS = {Symbol("product"): "p", Symbol("n"): [1, 2.5, None, True]}

PERFORMATIVES: tuple[Performative, ...] = (
    Open("container", "host", 512, 9, 1000, (), (), (_NAME, Symbol("b")), (_NAME,), _FIELDS),
    Begin(1, 2, 3, 4, 5),
    Attach(
        *("link", 0, Role.RECEIVER),
        source=Source("orders", filter={_NAME: Described(Ulong(1), "a")}, default_outcome=Modified(True)),
        target=Target("me"),
        unsettled={b"tag": Accepted(), b"": None, b"x": Described(Ulong(0x34), [])},
    ),
    Flow(1, 2, 3, 4, 5, 6, 7),
    Transfer(1, 2, b"tag", 0, False, True, state=Received(1, 2)),
    Disposition(Role.SENDER, 1, 2, True, Accepted()),
    Detach(1, True, ErrorValue(Condition.NOT_FOUND, "why", _FIELDS)),
    Close(),
)
BODIES: tuple[SaslBody, ...] = (
    SaslMechanisms((Symbol("PLAIN"), Symbol("EXTERNAL"))),
    SaslInit(Symbol("PLAIN"), b"\0user\0secret", "host"),
    SaslOutcome(SaslCode.OK, b"data"),
)
VALUES = (
    [None, True, 1, -1000, Uint(0), Uint(70000), 2.5, "text", b"bytes", _NAME],
    {"a": {}, _NAME: Array((_NAME, _NAME), Symbol), Ulong(5): Described(_NAME, [[]])},
    Array((Described(_NAME, [1]), Described(_NAME, [])), Described(_NAME, list)),
    Array((Array((None,) * 9, type(None)),), Array),
)
MESSAGES = (
    Message(
        header=Header(True),
        message_annotations={_NAME: Ulong(1)},
        properties=Properties("id", b"user", "to", content_type=_NAME),
        application_properties={"a": 1},
        body=Data((b"one", b"two")),
        footer={_NAME: 1},
    ),
    Message(delivery_annotations={_NAME: None}, body=AmqpSequence(([1], ["a"]))),
    Message(body=AmqpValue({"a": [1]})),
)


@target("amqp_value", MalformedValue, seeds=[encode(value) for value in VALUES])
def fuzz_value(data: bytes) -> None:
    value, behind = decode(data, 0, len(data))
    check(behind == skip(data, 0, len(data)) <= len(data), "a value has another length than it is skipped by")
    again = encode(value)
    check(encode(decode(again, 0, len(again))[0]) == again, "a value is another one when it is read again")


@target("amqp_performative", MalformedValue, seeds=[encode_performative(each) for each in PERFORMATIVES])
def fuzz_performative(data: bytes) -> None:
    performative, behind = decode_performative(data, 0, len(data))
    check(behind <= len(data), "a performative reaches beyond the end")
    again = encode_performative(performative)
    check(
        encode_performative(decode_performative(again, 0, len(again))[0]) == again,
        "a performative is another one when it is read again",
    )


@target("amqp_sasl", MalformedValue, seeds=[encode_sasl(body) for body in BODIES])
def fuzz_sasl(data: bytes) -> None:
    again = encode_sasl(decode_sasl(data, 0, len(data)))
    check(
        encode_sasl(decode_sasl(again, 0, len(again))) == again, "a body is another one when it is read again"
    )


@target("amqp_message", MalformedValue, seeds=[encode_message(message) for message in MESSAGES])
def fuzz_message(data: bytes) -> None:
    body = body_of(data)
    check(body is None or len(body) < len(data), "a body is longer than its message")
    sections = read_sections(data, 0, len(data))
    ends = [0, *(section.end for section in sections)]
    check([section.start for section in sections] == ends[:-1], "sections have gaps")
    check(ends[-1] == len(data), "sections end before their message")
    again = encode_message(decode_message(data, 0, len(data)))
    check(
        encode_message(decode_message(again, 0, len(again))) == again,
        "a message is another one when it is read again",
    )


@target(
    "amqp_frames",
    PeerError,
    seeds=[
        EMPTY_FRAME + encode_frame(1, PERFORMATIVES[4], data_section(b"body")) + encode_frame(0, Close()),
        b"".join(encode_sasl_frame(body) for body in BODIES),
    ],
)
def fuzz_frames(data: bytes) -> None:
    position = 0
    while (frame := read_frame(data, position, len(data), _FRAME_SIZE_BYTES_MAX)) is not None:
        check(position + 8 <= frame.position <= frame.end <= len(data), "a frame lies outside of the bytes")
        check(frame_bytes_missing(data, position, frame.end) == 0, "a whole frame lacks bytes")
        if frame.type is FrameType.SASL:
            decode_sasl(data, frame.position, frame.end)
        elif frame.position < frame.end:
            _, payload = decode_performative(data, frame.position, frame.end)
            check(payload <= frame.end, "a performative reaches beyond its frame")
        position = frame.end
    missing = frame_bytes_missing(data, position, len(data))
    check(0 < missing <= _FRAME_SIZE_BYTES_MAX, "a frame that is not whole lacks nothing")


@target("amqp_protocol_header", UnknownProtocol, seeds=[protocol_header(each) for each in ProtocolId])
def fuzz_protocol_header(data: bytes) -> None:
    protocol = read_protocol_header(data, 0, len(data))
    check((protocol is None) == (len(data) < 8), "a header is known before it is whole")
