"""Frames as other makers' clients wrote them to a socket: each is read as what that client was told to send."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.amqp.definitions import ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.frames import FrameType, encode_frame, encode_sasl_frame, read_frame
from headwater.amqp.messaging import Accepted, Source, Target, TerminusDurability, TerminusExpiryPolicy
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
)
from headwater.amqp.sasl_frames import SaslBody, SaslInit, decode_sasl
from headwater.encoding.amqp_message import (
    AmqpValue,
    Header,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from headwater.encoding.amqp_types import Described, Symbol, Ulong

FOLDER = Path(__file__).parent / "amqp"
FRAME_SIZE_BYTES_MAX = 4096
S = Symbol
DURABLE, NEVER = TerminusDurability.UNSETTLED_STATE, TerminusExpiryPolicy.NEVER
RECEIVER, SENDER = Role.RECEIVER, Role.SENDER

FRAMES: dict[str, Performative | SaslBody] = {
    "proton_sasl_init": SaslInit(S("ANONYMOUS"), b"anonymous"),
    "proton_open": Open(
        "901aa08b-20e0-4a80-8ee8-f89393ab3f77",
        "127.0.0.1",
        32768,
        32767,
        10000,
        offered_capabilities=(S("AA"),),
        desired_capabilities=(S("BB"), S("CC")),
        properties={S("product"): "p"},
    ),
    "proton_begin": Begin(None, 0, 2**31 - 1, 2**31 - 1, 2**31 - 1),
    "proton_attach_sender": Attach(
        "sender",
        0,
        SENDER,
        source=Source(),
        target=Target("orders"),
        initial_delivery_count=0,
        max_message_size=0,
    ),
    "proton_attach_receiver": Attach(
        "sub",
        1,
        RECEIVER,
        source=Source(
            "orders",
            DURABLE,
            NEVER,
            filter={S("selector"): Described(S("apache.org:selector-filter:string"), "a = 1")},
        ),
        target=Target(),
        initial_delivery_count=0,
        max_message_size=0,
    ),
    "proton_flow": Flow(None, 2**31 - 1, 0, 2**31 - 1, 1, 0, 5),
    "proton_transfer": Transfer(0, 0, b"1", 0),
    "proton_disposition": Disposition(RECEIVER, 0, settled=True, state=Accepted()),
    "proton_detach": Detach(1, True),
    "rhea_open": Open(
        "client",
        "host",
        idle_time_out=30000,
        offered_capabilities=(S("AA"),),
        desired_capabilities=(S("SHARED-SUBS"), S("ANONYMOUS-RELAY")),
        properties={S("product"): "p"},
    ),
    "rhea_begin": Begin(None, 0, 2048, 2**32 - 1),
    "rhea_attach_sender": Attach(
        "sender",
        0,
        SENDER,
        SenderSettleMode.UNSETTLED,
        ReceiverSettleMode.SECOND,
        Source(),
        Target("orders", capabilities=(S("queue"),)),
        initial_delivery_count=0,
    ),
    "rhea_attach_receiver": Attach(
        "sub",
        1,
        RECEIVER,
        source=Source(
            "orders",
            DURABLE,
            NEVER,
            filter={S("jms-selector"): Described(Ulong(0x468C00000004), "colour = 'green'")},
            capabilities=(S("topic"), S("shared")),
        ),
        target=Target(),
        properties={S("epoch"): 3},
    ),
    "rhea_transfer": Transfer(0, 0, b"tag1", 0, False),
    "rhea_flow": Flow(0, 2048, 1, 2**32 - 2, 1, 0, 5),
    "rhea_disposition": Disposition(RECEIVER, 0, 0, True, Accepted()),
    "rhea_detach": Detach(0, True),
    "rhea_close": Close(),
}
MESSAGES = {
    "proton_transfer": Message(
        header=Header(durable=True, ttl=5000),
        message_annotations={S("x-opt-k"): Ulong(1)},
        properties=Properties(message_id=Ulong(7), subject="s", creation_time=1_700_000_000_000),
        application_properties={"k": 2.5},
        body=AmqpValue({"a": [1, None, True]}),
    ),
    "rhea_transfer": Message(
        header=Header(durable=True, ttl=1000),
        message_annotations={S("x-opt-key"): "k"},
        properties=Properties(message_id="id-1", subject="s", content_type=S("text/plain")),
        application_properties={"a": 1, "b": "two"},
        body=AmqpValue("hello"),
    ),
}


def vector(name: str) -> bytes:
    lines = (FOLDER / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in lines)


def read(data: bytes) -> tuple[Performative | SaslBody, bytes]:
    """The body of the frame and the payload behind it."""
    frame = read_frame(data, 0, len(data), FRAME_SIZE_BYTES_MAX)
    assert frame is not None
    assert (frame.channel, frame.end) == (0, len(data))
    if frame.type is FrameType.SASL:
        return decode_sasl(data, frame.position, frame.end), b""
    performative, position = decode_performative(data, frame.position, frame.end)
    return performative, data[position:]


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.stem)
def test_every_vector_says_where_it_comes_from_and_is_read(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")
    assert path.stem in FRAMES


@pytest.mark.clause("AMQP 2.7", "AMQP encoding 2", "AMQP encoding 4")
@pytest.mark.parametrize(("name", "body"), FRAMES.items())
def test_a_frame_of_another_maker_is_read(name: str, body: Performative | SaslBody) -> None:
    found, payload = read(vector(name))
    assert found == body
    if name in MESSAGES:
        assert decode_message(payload, 0, len(payload)) == MESSAGES[name]
    else:
        assert not payload


@pytest.mark.parametrize(("name", "body"), FRAMES.items())
def test_it_is_written_so_that_it_is_read_as_the_same(name: str, body: Performative | SaslBody) -> None:
    payload = encode_message(MESSAGES[name]) if name in MESSAGES else b""
    written = encode_sasl_frame(body) if isinstance(body, SaslBody) else encode_frame(0, body, payload)
    assert read(written) == (body, payload)
