"""What Qpid Proton encodes comes back as it was, byte for byte; and what it shares with clients of the stream door."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Sequence
from typing import Any

import cramjam
import pytest
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton.utils import BlockingConnection
from rstream import AMQPMessage, CompressionType, amqp_decoder
from rstream.compression import NoneCompressionCodec, StreamCompressionCodecs

from headwater.encoding.amqp_message import SectionCode, read_sections
from tests.peers.proton_clients import Raw, connected, from_offset, receive_from
from tests.peers.rstream_clients import Clients, Confirms, publish, read, run
from tests.peers.servers import Server

KINDS_OF_VALUES: dict[str, object] = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": ubyte(255),
    "ushort": ushort(65535),
    "uint": uint(2**32 - 1),
    "small uint": uint(7),
    "zero uint": uint(0),
    "ulong": ulong(2**64 - 1),
    "small ulong": ulong(200),
    "byte": byte(-128),
    "short": short(-32768),
    "int": int32(-(2**31)),
    "small int": int32(-3),
    "long": -(2**63),
    "small long": 5,
    "float": float32(1.5),
    "double": -2.5e300,
    "char": char("\U0001f600"),
    "timestamp": timestamp(-1),
    "uuid": uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    "decimal32": decimal32(0x22500001),
    "decimal64": decimal64(0x2238000000000001),
    "decimal128": decimal128(bytes(range(16))),
    "binary": b"\x00\xff" * 5,
    "long binary": bytes(300),
    "empty string": "",
    "string": "grüße",
    "long string": "x" * 1000,
    "symbol": symbol("a-symbol"),
    "long symbol": symbol("s" * 300),
    "list": [1, "two", [3.0, None]],
    "empty list": [],
    "long list": list(range(500)),
    "map": {"one": 1, symbol("two"): [2], 3: {"four": None}},
    "empty map": {},
    "array": Array(UNDESCRIBED, Data.LONG, 1, -2, 3),
    "array of strings": Array(UNDESCRIBED, Data.STRING, "a", "bc" * 200),
    "described array": Array(symbol("of"), Data.INT, 1, 2),
    "described": Described(symbol("example:thing"), ["fields", 1]),
    "described twice": Described(ulong(2**40), Described(symbol("inner"), 1)),
}


def section(code: int, value: object) -> bytes:
    """A section as Proton writes it."""
    data = Data()
    data.put_object(Described(ulong(code), value))
    return bytes(data.encode())


HEADER = section(0x70, [True, ubyte(9), uint(60_000), True, uint(3)])
SHORT_HEADER = section(0x70, [False])
DELIVERY_ANNOTATIONS = section(0x71, {symbol("x-for-the-next-hop"): 1})
MESSAGE_ANNOTATIONS = section(0x72, {symbol("x-opt-key"): "k", symbol("x-list"): [1, 2]})
PROPERTIES = section(
    0x73,
    [
        "id-1",
        b"user",
        "to",
        "subject",
        "reply-to",
        ulong(7),
        symbol("text/plain"),
        symbol("gzip"),
        timestamp(1_700_000_000_000),
        timestamp(0),
        "group",
        uint(2**32 - 1),
        "reply-to-group",
    ],
)
FEW_PROPERTIES = section(0x73, [uuid.UUID(int=1), None, "to"])
APPLICATION_PROPERTIES = section(0x74, {"colour": "red", "count": ulong(3), "none": None})
FOOTER = section(0x78, {symbol("x-sum"): b"\x01\x02"})
MESSAGES = {
    "value": section(0x77, "alone"),
    "data": section(0x75, b"alone"),
    "empty data": section(0x75, b""),
    "sequence": section(0x76, [1, "two"]),
    "many data": section(0x75, b"one") + section(0x75, b"") + section(0x75, bytes(5000)),
    "many sequences": section(0x76, [1]) + section(0x76, []) + section(0x76, ["three", None]),
    "header and value": HEADER + section(0x77, None),
    "short header": SHORT_HEADER + section(0x75, b"x"),
    "properties": PROPERTIES + section(0x77, 1),
    "few properties": FEW_PROPERTIES + section(0x77, {}),
    "application properties": APPLICATION_PROPERTIES + section(0x75, b"x"),
    "all": HEADER
    + MESSAGE_ANNOTATIONS
    + PROPERTIES
    + APPLICATION_PROPERTIES
    + section(0x75, b"body")
    + FOOTER,
    "annotations and footer": MESSAGE_ANNOTATIONS + section(0x77, "v") + FOOTER,
    "sections with their codes as symbols": b"\x00\xa3\x10amqp:data:binary\xa0\x01x",
    "sections with long codes": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x77\x41",
}


def send_raw(connection: BlockingConnection, address: str, payloads: Sequence[bytes]) -> None:
    """Send bytes as they are, and see them accepted."""
    sender = connection.create_sender(address)
    deliveries = []
    for number, payload in enumerate(payloads):
        deliveries.append(sender.link.delivery(f"raw-{number}"))
        sender.link.stream(payload)
        sender.link.advance()
    connection.wait(lambda: all(delivery.settled for delivery in deliveries))
    assert all(delivery.remote_state == delivery.ACCEPTED for delivery in deliveries)
    sender.close()


def read_raw(connection: BlockingConnection, address: str, count: int) -> list[bytes]:
    """The first messages of a log as bytes, without what the server said of each on its way."""
    raw = Raw()
    raw.receiver = connection.create_receiver(address, credit=count, handler=raw, options=from_offset())
    connection.wait(lambda: len(raw.payloads) >= count)
    return [without_delivery_annotations(payload) for payload in raw.payloads]


def without_delivery_annotations(payload: bytes) -> bytes:
    sections = read_sections(payload, 0, len(payload))
    ours = [each for each in sections if each.code is SectionCode.DELIVERY_ANNOTATIONS]
    assert len(ours) == 1
    return payload[: ours[0].start] + payload[ours[0].end :]


def test_messages_of_every_section_come_back_byte_for_byte(server: Server, stream: str) -> None:
    payloads = list(MESSAGES.values())
    with connected(server) as connection:
        send_raw(connection, stream, payloads)
        found = read_raw(connection, stream, len(payloads))
    assert dict(zip(MESSAGES, found, strict=True)) == MESSAGES


def test_values_of_every_type_come_back_byte_for_byte_in_every_section(server: Server, stream: str) -> None:
    payloads = [section(0x77, value) for value in KINDS_OF_VALUES.values()]
    payloads += [
        section(0x72, {symbol("x-a"): value}) + section(0x77, "v") for value in KINDS_OF_VALUES.values()
    ]
    payloads += [section(0x76, [value, value]) for value in KINDS_OF_VALUES.values()]
    payloads += [section(0x77, 1) + section(0x78, {symbol("x-f"): each}) for each in KINDS_OF_VALUES.values()]
    with connected(server) as connection:
        send_raw(connection, stream, payloads)
        assert read_raw(connection, stream, len(payloads)) == payloads


def test_delivery_annotations_end_at_the_next_hop(server: Server, stream: str) -> None:
    rest = MESSAGE_ANNOTATIONS + section(0x77, "v")
    with connected(server) as connection:
        send_raw(connection, stream, [HEADER + DELIVERY_ANNOTATIONS + rest, DELIVERY_ANNOTATIONS + rest])
        assert read_raw(connection, stream, 2) == [HEADER + rest, rest]


def test_proton_reads_what_it_wrote(server: Server, stream: str) -> None:
    sent = Message(
        id=ulong(5),
        user_id=b"user",
        address="somewhere",
        subject="about",
        reply_to="back",
        correlation_id=uuid.UUID(int=9),
        content_type=symbol("text/plain"),
        expiry_time=12.0,
        creation_time=34.0,
        group_id="group",
        group_sequence=3,
        durable=True,
        priority=8,
        ttl=77.0,
        properties={"colour": "red", "weight": 2.5},
        annotations={symbol("x-opt-a"): "b"},
        body={"a map": [1, 2, {"deep": decimal.Decimal(0) == 0}]},
    )
    with connected(server) as connection:
        connection.create_sender(stream).send(sent)
        receiver = connection.create_receiver(stream, options=from_offset())
        found = receiver.receive()
    names = [name for name in vars(Message) if isinstance(getattr(Message, name), property)]
    different = {name for name in names if getattr(sent, name) != getattr(found, name)}
    assert different <= {"instructions"}, "only what the server says of the delivery is added"
    assert found.instructions[symbol("event-streams-offset")] == symbol("0000000000000000")
    assert found.instructions[symbol("event-streams-source-partition")] == symbol("0")
    assert found.body == sent.body
    assert found.properties == sent.properties


# Clients of the stream door on the same log


class Cramjam(NoneCompressionCodec):
    """A compression that rstream leaves to its users."""

    def __init__(self, module: Any, number: CompressionType) -> None:
        super().__init__()
        self._module, self._number = module, number

    def compress(self, messages: Sequence[Any]) -> None:
        super().compress(messages)
        self.buffer = bytes(self._module.compress(self.buffer))
        self.compressed_data_size = len(self.buffer)

    def compression_type(self) -> int:
        return int(self._number.value)


@pytest.fixture(autouse=True, scope="module")
def compressions() -> None:
    for number, module in (
        (CompressionType.Snappy, cramjam.snappy),
        (CompressionType.Lz4, cramjam.lz4),
        (CompressionType.Zstd, cramjam.zstd),
    ):
        StreamCompressionCodecs.register_codec(number, Cramjam(module, number))


@pytest.mark.parametrize("compression", list(CompressionType), ids=lambda each: each.name)
def test_sub_batches_of_a_stream_client_are_messages_here(
    server: Server, stream: str, compression: CompressionType
) -> None:
    payloads = [MESSAGES["all"], section(0x77, "plain"), section(0x75, bytes(1000))]

    async def publishing() -> None:
        async with Clients(server) as clients:
            producer, consumer = clients.producer(), clients.consumer()
            await consumer.create_stream(stream)
            confirms = Confirms()
            await producer.send(stream, payloads[0], on_publish_confirm=confirms.take)
            for _ in range(2):
                await producer.send_sub_entry(
                    stream, payloads * 30, compression, on_publish_confirm=confirms.take
                )
            await producer.send(stream, payloads[1], on_publish_confirm=confirms.take)
            await confirms.wait_for(4)

    run(publishing())
    expected = [payloads[0], *payloads * 60, payloads[1]]
    with connected(server) as connection:
        assert read_raw(connection, stream, len(expected)) == expected
        raw = Raw()
        raw.receiver = connection.create_receiver(
            stream, credit=10, handler=raw, name="in the middle", options=from_offset(50)
        )
        connection.wait(lambda: len(raw.payloads) >= 10)
    assert [without_delivery_annotations(each) for each in raw.payloads] == expected[50:60]


def test_what_a_stream_client_sends_that_is_no_message_is_shown_as_data(server: Server, stream: str) -> None:
    raw_bytes = [b"", b"no message", b"\x00", b"\x00S", b"\x00S\x23E", bytes(3000), b"\xa1\x05short"]

    async def publishing() -> None:
        async with Clients(server) as clients:
            await clients.consumer().create_stream(stream)
            await publish(clients.producer(), stream, raw_bytes)

    run(publishing())
    with connected(server) as connection:
        found = read_raw(connection, stream, len(raw_bytes))
    assert found == [section(0x75, each) for each in raw_bytes]


def test_messages_of_proton_are_read_by_a_stream_client(server: Server, stream: str) -> None:
    payloads = list(MESSAGES.values())

    async def reading() -> None:
        async with Clients(server) as clients:
            inbox = await read(clients.consumer(), stream, len(payloads) + 1)
            assert inbox.messages[:-1] == payloads
            decoded = amqp_decoder(inbox.messages[-1])
            assert decoded.body == b"from proton"
            assert decoded.application_properties == {b"colour": b"red"}

    with connected(server) as connection:
        send_raw(connection, stream, payloads)
        last = Message(body=b"from proton", inferred=True, properties={"colour": "red"})
        connection.create_sender(stream).send(last)
    run(reading())


def test_messages_of_a_stream_client_are_read_by_proton(server: Server, stream: str) -> None:
    messages = [
        AMQPMessage(body=b"message %d" % number, application_properties={"n": number}) for number in range(20)
    ]

    async def publishing() -> None:
        async with Clients(server) as clients:
            await clients.consumer().create_stream(stream)
            await publish(clients.producer(), stream, messages)

    run(publishing())
    with connected(server) as connection:
        assert read_raw(connection, stream, 20) == [bytes(message) for message in messages]
        receiver = receive_from(connection, stream)
        assert [receiver.receive().properties for _ in range(20)] == [{"n": number} for number in range(20)]
