"""What is taken off messages that are sent on."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.client.forwarding import to_send_on
from headwater.encoding.amqp_message import Data, Header, Message, decode_message, encode_message
from headwater.encoding.amqp_types import Array, Symbol, Timestamp, Ulong

SOURCE = Symbol("event-streams-source-partition")
CHANGED = Symbol("event-streams-associated-partitions-changed")
CHANGED_TOO = Symbol("event-streams-assigned-partitions-changed")
OTHER = Symbol("x-opt-other")
PARTITIONS = Array((Symbol("0"), Symbol("1")), Symbol)


def message(annotations: dict[Symbol | Ulong, Any] | None) -> bytes:
    return encode_message(
        Message(
            header=Header(durable=True),
            delivery_annotations=annotations,
            message_annotations={OTHER: 1},
            body=Data((b"an event",)),
        )
    )


@pytest.mark.clause("ES-31")
@pytest.mark.parametrize("name", [SOURCE, CHANGED, CHANGED_TOO])
def test_what_held_for_a_link_alone_is_taken_off_and_nothing_else(name: Symbol) -> None:
    value = Symbol("0") if name is SOURCE else PARTITIONS
    kept: dict[Symbol | Ulong, Any] = {OTHER: "kept", Symbol("event-streams-timestamp"): Timestamp(1)}
    found = to_send_on(message({**kept, name: value}))
    assert found == message(kept)
    assert decode_message(found, 0, len(found)).delivery_annotations == kept


@pytest.mark.clause("ES-31")
def test_a_section_in_which_nothing_is_left_goes() -> None:
    assert to_send_on(message({SOURCE: Symbol("0"), CHANGED: PARTITIONS})) == message(None)


@pytest.mark.parametrize(
    "given", [message(None), message({OTHER: 1}), b"", b"no message", message({OTHER: 1})[:-3], b"\x00Sq\x40"]
)
def test_what_has_none_of_it_passes_as_it_is(given: bytes) -> None:
    assert to_send_on(given) == given
