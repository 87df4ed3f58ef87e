"""AMQP frames and messages in every encoding that a peer may choose, built by the layouts of the standard alone."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = [
    "Message",
    "Transfer",
    "chunk_data",
    "compound",
    "described",
    "descriptor_forms",
    "disposition",
    "frame",
    "frame_of",
    "messages",
    "records",
    "transfers",
    "uint",
]

NAMES = {
    0x14: b"amqp:transfer:list",
    0x15: b"amqp:disposition:list",
    0x24: b"amqp:accepted:list",
    0x70: b"amqp:header:list",
    0x71: b"amqp:delivery-annotations:map",
    0x72: b"amqp:message-annotations:map",
    0x73: b"amqp:properties:list",
    0x74: b"amqp:application-properties:map",
    0x75: b"amqp:data:binary",
    0x77: b"amqp:amqp-value:*",
}
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"


def uint(value: int, form: int = 0) -> bytes:
    """A number in its compact form, or in one that is as long as form says: 1, 2 or 5."""
    if value == 0 and form in (0, 1):
        return b"\x43"
    if value < 256 and form != 5:
        return bytes((0x52, value))
    return b"\x70" + struct.pack(">I", value)


def described(code: int, value: bytes, form: int = 0x53) -> bytes:
    """A value behind its descriptor: a small ulong, a ulong or a symbol."""
    if form == 0x53:
        return bytes((0, 0x53, code)) + value
    if form == 0x80:
        return b"\0\x80" + code.to_bytes(8, "big") + value
    return b"\0\xa3" + bytes((len(NAMES[code]),)) + NAMES[code] + value


def compound(items: list[bytes], *, wide: bool = False, is_map: bool = False) -> bytes:
    """A list or a map, in its short form where it fits."""
    content = b"".join(items)
    if wide or len(content) > 254:
        return bytes((0xD0 + is_map,)) + struct.pack(">II", len(content) + 4, len(items)) + content
    return bytes((0xC0 + is_map, len(content) + 1, len(items))) + content


def frame(channel: int, body: bytes, *, doff: int = 2, type: int = 0) -> bytes:
    """A frame with zeros as its extended header."""
    size = 4 * doff + len(body)
    return struct.pack(">IBBH", size, doff, type, channel) + bytes(max(0, 4 * doff - 8)) + body


@dataclass(frozen=True)
class Message:
    """A message in the pieces that matter: a header, delivery annotations, and the rest."""

    header: bytes = b""
    annotations: bytes = b""
    rest: bytes = b""

    @property
    def payload(self) -> bytes:
        return self.header + self.annotations + self.rest

    @property
    def record(self) -> bytes:
        """What is stored of it."""
        return self.header + self.rest


@dataclass(frozen=True)
class Transfer:
    """A transfer of one frame."""

    message: Message
    delivery_id: int = 0
    handle: int = 0
    channel: int = 0
    settled: bool = False
    forms: tuple[int, int, int] = (0, 0, 0x53)
    """Of handle, delivery-id and descriptor."""
    tag: bytes = b"\0"
    format: bytes = b"\x43"
    others: tuple[bytes, ...] = (FALSE, NULL, NULL, FALSE, FALSE, FALSE)
    """More, rcv-settle-mode, state, resume, aborted and batchable."""
    fields_sent: int = 11
    """The rest is trimmed, as far as it says nothing."""
    wide: bool = False
    doff: int = 2

    @property
    def fields(self) -> list[bytes]:
        settled = TRUE if self.settled else FALSE if self.fields_sent % 2 else NULL
        tag = b"\xa0" + bytes((len(self.tag),)) + self.tag
        ids = [uint(self.handle, self.forms[0]), uint(self.delivery_id, self.forms[1])]
        all_fields = [*ids, tag, self.format, settled, *self.others]
        return all_fields[: max(self.fields_sent, 5 if self.settled else 3)]


def frame_of(transfer: Transfer) -> bytes:
    """Its bytes."""
    performative = described(0x14, compound(transfer.fields, wide=transfer.wide), transfer.forms[2])
    return frame(transfer.channel, performative + transfer.message.payload, doff=transfer.doff)


def disposition(
    first: int,
    last: int | None,
    *,
    channel: int = 0,
    receiver: bool = True,
    settled: bool = True,
    accepted: bool = True,
    state: bytes = compound([]),
    forms: tuple[int, int] = (0x53, 0x53),
    fields_sent: int = 6,
    wide: bool = False,
) -> bytes:
    """A disposition; without a last id if that is None."""
    fields = [
        TRUE if receiver else FALSE,
        uint(first),
        NULL if last is None else uint(last),
        TRUE if settled else FALSE,
        described(0x24, state, forms[1]) if accepted else NULL,
        FALSE,
    ]
    needed = 5 if accepted else 4 if settled else 2 if last is None else 3
    listed = compound(fields[: max(fields_sent, needed)], wide=wide)
    return frame(channel, described(0x15, listed, forms[0]))


descriptor_forms = st.sampled_from([0x53, 0x53, 0x53, 0x80, 0xA3])


@st.composite
def messages(draw: st.DrawFn, *, annotated: bool = True) -> Message:
    """Messages with and without header and delivery annotations, whose bodies may be of any bytes."""
    header, annotations = b"", b""
    if draw(st.booleans()):
        fields = draw(st.lists(st.sampled_from([NULL, TRUE, b"\x50\x04", b"\x70\0\0\0\x01"]), max_size=5))
        listed = b"\x45" if not fields else compound(fields, wide=draw(st.booleans()))
        header = described(0x70, listed, draw(descriptor_forms))
    if annotated and draw(st.booleans()):
        pairs = draw(st.lists(st.binary(max_size=9), max_size=3))
        items = [part for value in pairs for part in (b"\xa3\x01k", b"\xa0" + bytes((len(value),)) + value)]
        mapped = compound(items, wide=draw(st.booleans()), is_map=True)
        annotations = described(0x71, mapped, draw(descriptor_forms))
    body = draw(st.one_of(st.binary(max_size=60), st.binary(min_size=250, max_size=260)))
    code = draw(st.sampled_from([0x73, 0x75, 0x77]))
    binary = b"\xb0" + struct.pack(">I", len(body)) + body
    return Message(header, annotations, described(code, binary, draw(descriptor_forms)))


common_others = st.tuples(
    st.sampled_from([FALSE, FALSE, NULL]),
    st.just(NULL),
    st.just(NULL),
    st.sampled_from([FALSE, NULL]),
    st.sampled_from([FALSE, NULL]),
    st.sampled_from([FALSE, NULL, TRUE]),
)
serials = st.sampled_from([0, 1, 255, 256, 2**31, 2**32 - 2, 2**32 - 1])


def transfers() -> st.SearchStrategy[Transfer]:
    """Transfers of the common kind, in every encoding."""
    return st.builds(
        Transfer,
        message=messages(),
        delivery_id=serials,
        handle=st.sampled_from([0, 0, 7, 300, 2**32 - 1]),
        channel=st.sampled_from([0, 0, 3, 65_535]),
        settled=st.booleans(),
        forms=st.tuples(st.sampled_from([0, 2, 5]), st.sampled_from([0, 2, 5]), descriptor_forms),
        tag=st.binary(min_size=1, max_size=32),
        format=st.sampled_from([NULL, b"\x43", b"\x52\0", b"\x70\0\0\0\0"]),
        others=common_others,
        fields_sent=st.integers(3, 11),
        wide=st.booleans(),
        doff=st.sampled_from([2, 2, 3, 255]),
    )


def chunk_data(parts: list[bytes]) -> bytes:
    """Records as entries of a chunk."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


texts = st.one_of(st.binary(max_size=9), st.binary(min_size=250, max_size=260))
records = st.one_of(
    messages(annotated=False).map(lambda message: message.record),
    messages().map(lambda message: message.payload),
    texts.map(lambda text: b"." + text),
    st.just(b""),
)
