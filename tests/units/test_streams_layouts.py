"""The table of layouts: it names the fields of each command, and no field has a form that it must not have."""

from __future__ import annotations

import pytest

from headwater.errors import MalformedFrame
from headwater.streams import commands as c
from headwater.streams.codec import CLIENT_DECODERS, SERVER_DECODERS, decode_request, decode_response, encode
from headwater.streams.commands import Key, OffsetSpecification, OffsetType
from headwater.streams.errors import InvalidCommand, UnknownFrame
from headwater.streams.layouts import ANSWER, FROM_CLIENT, FROM_SERVER, Layout

ONE_WAY = {Key.PUBLISH, Key.STORE_OFFSET}
FROM_SERVER_ALONE = {Key.PUBLISH_CONFIRM, Key.PUBLISH_ERROR, Key.DELIVER, Key.METADATA_UPDATE}


@pytest.mark.parametrize("layout", FROM_CLIENT + FROM_SERVER, ids=lambda layout: layout.kind.__name__)
def test_a_layout_names_the_fields_of_its_command_in_their_order(layout: Layout) -> None:
    assert tuple(layout.fields) == layout.kind.__struct_fields__
    assert issubclass(layout.kind, c.Response) == (
        "response_code" in layout.fields and "correlation_id" in layout.fields
    )


def test_every_key_has_a_layout_in_each_direction_it_goes() -> None:
    both = {Key.CLOSE, Key.HEARTBEAT}
    asked = set(Key) - FROM_SERVER_ALONE - {Key.CONSUMER_UPDATE}
    assert CLIENT_DECODERS.keys() == asked | {
        ANSWER | key for key in (Key.TUNE, Key.CLOSE, Key.CONSUMER_UPDATE)
    }
    answered = asked - ONE_WAY - both - {Key.TUNE} | {Key.CLOSE}
    pushed = FROM_SERVER_ALONE | both | {Key.TUNE, Key.CONSUMER_UPDATE}
    assert SERVER_DECODERS.keys() == {ANSWER | key for key in answered} | pushed


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("000c 0001 00000001", "cut off"),
        ("000c 0001 00000001 02 00", "1 bytes too many"),
        ("000e 0001 00000001 0002 61", "beyond the end"),
        ("000e 0001 00000001 00", "beyond the end"),
        ("000e 0001 00000001 0001 ff", "no UTF-8"),
        ("000e 0001 00000001 0003 eda080", "no UTF-8"),
        ("000e 0001 00000001 0001", "beyond the end"),
        ("000e 0001 00000001 ffff", "a length of -1 bytes cannot"),
        ("000e 0001 00000001 8000" + 32_768 * "61", "a length of -32768 bytes cannot"),
        ("000f 0001 00000001 7fffffff 0000", "an array of 2147483647 cannot"),
        ("000f 0001 00000001 ffffffff 0000", "an array of -1 cannot"),
        ("000f 0001 00000001 00000002 0000", "an array of 2 cannot"),
        ("0011 0001 00000001 00000001 0001 61", "an array of 1 cannot"),
        ("0013 0001 00000001 0001 61 fffffffe", "a length of -2 bytes cannot"),
        ("0013 0001 00000001 0001 61 00000002 61", "a length of 2 bytes cannot"),
        ("0013 0001 00000001 0001 61 0000", "beyond the end"),
        ("0007 0001 00000001 01 0001 61 0006 0001", "an offset type of 6 is unknown"),
        ("0007 0001 00000001 01 0001 61 0004 000000", "beyond the end"),
        ("0007 0001 00000001 01 0001 61 00", "beyond the end"),
        ("0007 0001 00000001 01 0001 61 0001 0001 00", "beyond the end"),
        ("801a 0001 00000001 0001 0001 00000000", "4 bytes too many"),
        ("801a 0001 00000001 0001 0004 0000000000000001 00", "1 bytes too many"),
        ("0000", "no key and version"),
    ],
)
def test_what_has_not_the_form_of_its_layout_is_malformed(frame: str, reason: str) -> None:
    data = bytes.fromhex(frame)
    with pytest.raises(MalformedFrame, match=reason):
        decode_request(data, 0, len(data))


def test_active_is_0_or_1() -> None:
    for last, length in (("02", 10), ("", 9)):
        with pytest.raises(MalformedFrame):
            decode_response(bytes.fromhex("001a 0001 00000001 01" + last), 0, length)


def test_an_unknown_key_or_version_says_which_it_is() -> None:
    with pytest.raises(UnknownFrame, match="key 0x0020 in version 1") as unknown:
        decode_request(b"\0\x20\0\1", 0, 4)
    assert (unknown.value.key, unknown.value.version) == (0x20, 1)
    assert unknown.value.code == c.ResponseCode.UNKNOWN_FRAME
    with pytest.raises(UnknownFrame, match="key 0x0017 in version 2"):
        decode_request(b"\0\x17\0\2", 0, 4)


@pytest.mark.parametrize(
    "command",
    [
        c.DeleteRequest(2**32, "s"),
        c.DeleteRequest(-1, "s"),
        c.DeleteRequest(1, "s" * 32_768),
        c.DeleteRequest(1, "\ud800"),
        c.Credit(256, 1),
        c.SubscribeRequest(1, 1, "s", OffsetSpecification(OffsetType.OFFSET, -1), 1),
        c.Publish(1, 1, 0, 0, 0),
        c.PublishConfirm(1, 0, 0, 0),
    ],
    ids=repr,
)
def test_a_field_that_cannot_be_written_is_our_callers_fault(command: c.Command) -> None:
    with pytest.raises(InvalidCommand, match=type(command).__name__):
        encode(command)


def test_a_key_that_comes_twice_counts_with_its_last_value() -> None:
    frame = bytes.fromhex("000d 0001 00000001 0001 73 00000002 0001 61 0001 31 0001 61 0001 32")
    assert decode_request(frame, 0, len(frame)) == c.CreateRequest(1, "s", {"a": "2"})


def test_absent_properties_are_not_shared() -> None:
    frame = encode(c.ResolveOffsetSpecRequest(1, "s", OffsetSpecification(OffsetType.LAST)))
    first, second = (decode_request(frame, 4, len(frame)) for _ in range(2))
    assert isinstance(first, c.ResolveOffsetSpecRequest)
    assert isinstance(second, c.ResolveOffsetSpecRequest)
    assert first.properties is not second.properties
