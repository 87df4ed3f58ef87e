"""Annotations that are added to stored messages."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding.amqp_message import (
    Data,
    Header,
    Message,
    Properties,
    SectionCode,
    data_section,
    decode_message,
    decode_section,
    encode_message,
    read_sections,
)
from headwater.encoding.amqp_types import Symbol
from headwater.encoding.message_annotations import annotated
from headwater.errors import MalformedValue

WHY = Symbol("x-opt-why")
ADDED: dict[Any, Any] = {WHY: Symbol("rejected")}


def decoded(data: bytes) -> Message:
    return decode_message(data, 0, len(data))


@given(
    has_header=st.booleans(),
    before=st.none() | st.dictionaries(st.sampled_from([Symbol("x-opt-mine"), WHY]), st.integers(0, 9)),
    has_properties=st.booleans(),
    has_body=st.booleans(),
)
def test_the_rest_of_a_message_stays_as_it_is(
    has_header: bool, before: dict[Any, Any] | None, has_properties: bool, has_body: bool
) -> None:
    message = Message(
        header=Header(durable=True) if has_header else None,
        message_annotations=before,
        properties=Properties(subject="s") if has_properties else None,
        body=Data((b"body",)) if has_body else None,
    )
    found = decoded(annotated(encode_message(message), ADDED))
    assert found.message_annotations == {**(before or {}), **ADDED}
    assert (found.header, found.properties, found.body) == (message.header, message.properties, message.body)


@given(st.binary(max_size=60))
def test_any_bytes_become_a_message_that_says_so(record: bytes) -> None:
    found = annotated(record, ADDED)
    (section,) = [
        each for each in read_sections(found, 0, len(found)) if each.code is SectionCode.MESSAGE_ANNOTATIONS
    ]
    assert decode_section(found, section)[WHY] == "rejected"
    try:
        sections = read_sections(record, 0, len(record))
    except MalformedValue:
        assert found[section.end :] == data_section(record)
    else:
        others = [record[each.start : each.end] for each in sections if each.code is not section.code]
        assert found[: section.start] + found[section.end :] in (b"".join(others), data_section(record))
