"""Kernels that read what peers send touch no byte behind its end: there stands a page that cannot be read."""

from __future__ import annotations

import contextlib
import struct
from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.encoding._amqp_kernel import (
    join_dispositions,
    peek_transfer,
    scan_transfers,
    skim_entries,
    skim_message,
)
from headwater.encoding._key_kernel import find_annotations
from headwater.encoding._message_kernel import list_value, map_value
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.amqp_message import Data, Header, Properties, encode_message
from headwater.encoding.amqp_message import Message as AmqpMessage
from headwater.encoding.amqp_types import Symbol
from headwater.errors import MalformedChunk
from tests.amqp_frames import disposition, frame_of, messages, transfers
from tests.guard_page import GuardedMemory

MEMORY = GuardedMemory()
FRAME_MAX = 1 << 20
KEY = b"event-streams-group-key"
WHOLE = encode_message(
    AmqpMessage(
        header=Header(durable=True),
        delivery_annotations={Symbol("x"): 1},
        message_annotations={Symbol(KEY.decode()): "key", Symbol("y"): [1]},
        properties=Properties(message_id=5, subject="s"),
        application_properties={"a": 1, "b": 2.5},
        body=Data((b"x" * 300,)),
    )
)


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> memoryview:
    """Such bytes with some of them changed, cut off anywhere, at the end of what can be read."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + 1] = draw(
            st.sampled_from([b"\x00", b"\xff", b"\xc0", b"\xd1", b"\x53", b"\x80", b"\xa3\x04"])
        )
    return MEMORY.placed(bytes(data[: draw(st.integers(0, len(data)))]))


payloads = st.one_of(st.just(WHOLE), messages().map(lambda message: message.payload))


@given(view=broken(payloads))
@settings(max_examples=300)
def test_messages(view: memoryview) -> None:
    size = len(view)
    _, head_end, rest = skim_message(view, 0, size)
    assert 0 <= head_end <= rest <= size
    for section in range(0x70, 0x79):
        for key in (b"a", b"y", b""):
            map_value(view, 0, size, section, key)
        for index in (0, 3, 12):
            list_value(view, 0, size, section, index)
    for section in (0x71, 0x72):
        found = array("q", (0, 0))
        find_annotations(view, array("q", (0, 0, 0, size)), 0, 1, section, KEY, found)
        assert found[0] <= found[1] <= size


@given(view=broken(st.lists(transfers().map(frame_of), min_size=1, max_size=3).map(b"".join)))
@settings(max_examples=300)
def test_transfers(view: memoryview) -> None:
    spans = array("q", bytes(8 * SPAN_FIELDS * 4))
    peeked = peek_transfer(view, 0, len(view), FRAME_MAX)
    if peeked is not None:
        count, behind, _ = scan_transfers(view, 0, len(view), FRAME_MAX, *peeked, 0, spans)
        assert count <= 4
        assert behind <= len(view)


dispositions = st.builds(
    disposition,
    first=st.integers(0, 300),
    last=st.sampled_from([None, 300]),
    settled=st.booleans(),
    accepted=st.booleans(),
    wide=st.booleans(),
)


@given(view=broken(st.lists(dispositions, min_size=1, max_size=3).map(b"".join)))
@settings(max_examples=300)
def test_dispositions(view: memoryview) -> None:
    joined = join_dispositions(view, 0, len(view), FRAME_MAX)
    assert joined is None or joined[1] <= len(view)


@given(
    view=broken(
        st.lists(payloads, min_size=1, max_size=3).map(
            lambda several: b"".join(struct.pack(">I", len(each)) + each for each in several)
        )
    )
)
@settings(max_examples=300)
def test_entries(view: memoryview) -> None:
    spans = array("q", bytes(8 * SPAN_FIELDS * 4))
    with contextlib.suppress(MalformedChunk):
        found, behind = skim_entries(view, 0, len(view), 4, spans)
        assert found <= 4
        assert behind <= len(view)
