"""Frames as the stream protocol and its clients have them: each decodes to one command, which encodes to it again."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from headwater.encoding._kernel import filter_values, gather_published
from headwater.encoding.chunk import ChunkHeader, ChunkType
from headwater.errors import MalformedFrame
from headwater.streams import commands as c
from headwater.streams.codec import decode_request, decode_response, encode
from headwater.streams.commands import CommandVersion, OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.deliver import deliver_header
from headwater.streams.publish import encode_filtered_publish, encode_publish, publish_confirm, publish_error
from headwater.streams.server_connection import SERVER_COMMANDS

FOLDER = Path(__file__).parent / "streams"
NOON = 1_700_000_000_000
FIRST = OffsetSpecification(OffsetType.FIRST)
NEXT = OffsetSpecification(OffsetType.NEXT)
BROKERS = (c.Broker(0, "host", 5552),)
CHUNK = ChunkHeader(ChunkType.USER, 1, 1, NOON, 3, 42, zlib.crc32(b"\0\0\0\3abc"), 7, 0, 0)

COMMANDS: dict[str, c.Command] = {
    "client_declare_publisher_named": c.DeclarePublisherRequest(5, 7, "ref", "orders"),
    "client_declare_publisher_empty_reference": c.DeclarePublisherRequest(5, 7, "", "orders"),
    "client_declare_publisher_null_reference": c.DeclarePublisherRequest(5, 7, None, "orders"),
    "client_publish_v1": c.Publish(7, 1, 2, 13, 42),
    "client_publish_v2": c.Publish(7, 2, 2, 13, 48),
    "client_publish_sub_batch": c.Publish(7, 1, 1, 13, 35),
    "client_query_publisher_sequence": c.QueryPublisherSequenceRequest(6, "ref", "orders"),
    "client_delete_publisher": c.DeletePublisherRequest(7, 7),
    "client_subscribe_first": c.SubscribeRequest(8, 1, "orders", FIRST, 10),
    "client_subscribe_first_empty_properties": c.SubscribeRequest(8, 1, "orders", FIRST, 10),
    "client_subscribe_offset": c.SubscribeRequest(
        8, 1, "orders", OffsetSpecification(OffsetType.OFFSET, 2**64 - 1), 65535, {"filter.0": "ottaw"}
    ),
    "client_subscribe_timestamp": c.SubscribeRequest(
        8, 255, "orders", OffsetSpecification(OffsetType.TIMESTAMP, -1), 0, {"match-unfiltered": "true"}
    ),
    "client_credit": c.Credit(2, 5),
    "client_store_offset": c.StoreOffset("ref", "orders", 2**63),
    "client_query_offset": c.QueryOffsetRequest(9, "ref", "orders"),
    "client_unsubscribe": c.UnsubscribeRequest(10, 2),
    "client_create": c.CreateRequest(11, "orders", {"max-age": "1D"}),
    "client_delete": c.DeleteRequest(12, "orders"),
    "client_metadata": c.MetadataRequest(13, ("orders", "b")),
    "client_peer_properties": c.PeerPropertiesRequest(1, {"product": "test"}),
    "client_sasl_handshake": c.SaslHandshakeRequest(2),
    "client_sasl_authenticate_plain": c.SaslAuthenticateRequest(3, "PLAIN", b"\0user\0secrt"),
    "client_sasl_authenticate_null": c.SaslAuthenticateRequest(3, "EXTERNAL", None),
    "client_tune_8014": c.TuneResponse(0x100000, 60),
    "client_tune_0014": c.TuneResponse(0x100000, 60),
    "client_tune_nothing": c.TuneResponse(0, 0),
    "client_open": c.OpenRequest(4, "/"),
    "client_close": c.CloseRequest(14, ResponseCode.OK, "OK"),
    "client_close_null_reason": c.CloseRequest(14, ResponseCode.OK, None),
    "client_close_response": c.CloseResponse(1, ResponseCode.OK),
    "client_heartbeat": c.Heartbeat(),
    "client_route": c.RouteRequest(15, "k", "orders"),
    "client_partitions": c.PartitionsRequest(16, "orders"),
    "client_consumer_update_none": c.ConsumerUpdateResponse(2, 1, OffsetSpecification(OffsetType.NONE)),
    "client_consumer_update_offset": c.ConsumerUpdateResponse(
        2, 1, OffsetSpecification(OffsetType.OFFSET, 5)
    ),
    "client_consumer_update_first_padded": c.ConsumerUpdateResponse(2, 1, FIRST),
    "client_exchange_command_versions_java": c.ExchangeCommandVersionsRequest(
        17, (CommandVersion(2, 1, 2), CommandVersion(8, 1, 2))
    ),
    "client_exchange_command_versions_rust": c.ExchangeCommandVersionsRequest(17, ()),
    "client_stream_stats": c.StreamStatsRequest(18, "orders"),
    "client_create_super_stream": c.CreateSuperStreamRequest(19, "s", ("s-0", "s-1"), ("0", "1"), {"a": "1"}),
    "client_delete_super_stream": c.DeleteSuperStreamRequest(20, "s"),
    "client_resolve_offset_spec": c.ResolveOffsetSpecRequest(21, "orders", NEXT),
    "client_resolve_offset_spec_timestamp": c.ResolveOffsetSpecRequest(
        21, "orders", OffsetSpecification(OffsetType.TIMESTAMP, NOON)
    ),
    "server_declare_publisher": c.DeclarePublisherResponse(5, ResponseCode.OK),
    "server_subscribe_refused": c.SubscribeResponse(8, ResponseCode.SUBSCRIPTION_ID_ALREADY_EXISTS),
    "server_publish_confirm": c.PublishConfirm(7, 2, 13, 29),
    "server_publish_error": c.PublishError(
        7, (c.PublishingError(1, 0x12), c.PublishingError(2**64 - 1, 0x12))
    ),
    "server_query_publisher_sequence": c.QueryPublisherSequenceResponse(6, ResponseCode.OK, 2**63),
    "server_query_publisher_sequence_refused": c.QueryPublisherSequenceResponse(
        6, ResponseCode.STREAM_DOES_NOT_EXIST
    ),
    "server_deliver_v1": c.Deliver(
        2,
        None,
        ChunkHeader(ChunkType.USER, 1, 1, NOON, 3, 42, zlib.crc32(b"\0\0\0\3abc"), 7, 32, 16),
        9,
        64,
    ),
    "server_deliver_v2": c.Deliver(2, 44, CHUNK, 17, 72),
    "server_credit": c.CreditResponse(ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST, 2),
    "server_query_offset_none": c.QueryOffsetResponse(9, ResponseCode.NO_OFFSET),
    "server_metadata": c.MetadataResponse(13, BROKERS, (c.StreamMetadata("orders", 1, 0),)),
    "server_metadata_unknown": c.MetadataResponse(
        13, BROKERS, (c.StreamMetadata("nother", ResponseCode.STREAM_DOES_NOT_EXIST, c.NO_LEADER),)
    ),
    "server_metadata_update": c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "orders"),
    "server_peer_properties": c.PeerPropertiesResponse(1, ResponseCode.OK, {"version": "4.0.5"}),
    "server_sasl_handshake": c.SaslHandshakeResponse(2, ResponseCode.OK, ("PLAIN",)),
    "server_sasl_authenticate_ok": c.SaslAuthenticateResponse(3, ResponseCode.OK),
    "server_sasl_authenticate_refused": c.SaslAuthenticateResponse(3, ResponseCode.AUTHENTICATION_FAILURE),
    "server_sasl_authenticate_challenge": c.SaslAuthenticateResponse(3, ResponseCode.SASL_CHALLENGE, b"r=ab"),
    "server_tune": c.TuneRequest(0x100000, 60),
    "server_open": c.OpenResponse(4, ResponseCode.OK, {"advertised_host": "h", "advertised_port": "5552"}),
    "server_open_refused": c.OpenResponse(4, ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE),
    "server_close_unknown_frame": c.CloseRequest(1, ResponseCode.UNKNOWN_FRAME, "unknown frame"),
    "server_heartbeat": c.Heartbeat(),
    "server_route_nothing": c.RouteResponse(15, ResponseCode.OK),
    "server_route_unknown": c.RouteResponse(15, ResponseCode.STREAM_DOES_NOT_EXIST),
    "server_partitions": c.PartitionsResponse(16, ResponseCode.OK, ("s-0", "s-1")),
    "server_consumer_update": c.ConsumerUpdateRequest(2, 2, True),
    "server_exchange_command_versions": c.ExchangeCommandVersionsResponse(17, 1, SERVER_COMMANDS),
    "server_stream_stats": c.StreamStatsResponse(18, ResponseCode.OK, {"committed_chunk_id": -1}),
    "server_resolve_offset_spec": c.ResolveOffsetSpecResponse(
        21, ResponseCode.OK, OffsetSpecification(OffsetType.OFFSET, 42)
    ),
    "server_resolve_offset_spec_refused": c.ResolveOffsetSpecResponse(21, ResponseCode.NO_OFFSET),
}
IDS = (1).to_bytes(8, "big") + b"\xff" * 8
SPANS = {
    "client_publish_v1": encode_publish(7, [(1, b"abc"), (2**64 - 1, b"de")]),
    "client_publish_v2": encode_filtered_publish(7, [(1, "eu", b"abc"), (2, None, b"de")]),
    "server_publish_confirm": publish_confirm(7, IDS),
}
TAKEN_ONLY = {
    "client_subscribe_first_empty_properties",
    "client_tune_0014",
    "client_consumer_update_first_padded",
    "client_resolve_offset_spec_timestamp",
    "client_publish_sub_batch",
    "server_deliver_v1",
    "server_deliver_v2",
}
"""Forms that other peers have, or frames whose messages are not made by the codec."""

OPTIONAL_FROM = {
    "client_resolve_offset_spec_timestamp": 30,
    "client_subscribe_first_empty_properties": 25,
    "client_subscribe_offset": 33,
    "client_subscribe_timestamp": 33,
    "client_consumer_update_first_padded": 16,
    "server_sasl_authenticate_challenge": 14,
    "server_open": 14,
}
"""Where a frame is whole without what follows."""


def vector(name: str) -> bytes:
    """The bytes of a .hex file; from `#` to the end of a line it is words."""
    lines = (FOLDER / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in lines)


def decode(name: str, frame: bytes) -> c.Command:
    function = decode_request if name.startswith("client_") else decode_response
    return function(frame, 4, len(frame))


def test_every_vector_is_used_and_says_where_it_comes_from() -> None:
    paths = sorted(FOLDER.iterdir())
    assert {path.stem for path in paths} == COMMANDS.keys()
    for path in paths:
        assert "without any code of headwater" in path.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_frame_decodes_to_its_command(name: str) -> None:
    frame = vector(name)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(name, frame) == COMMANDS[name]


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - TAKEN_ONLY))
def test_a_command_encodes_to_its_frame(name: str) -> None:
    assert (SPANS[name] if name in SPANS else encode(COMMANDS[name])) == vector(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_frame_with_a_byte_too_many_is_malformed(name: str) -> None:
    frame = vector(name) + b"\0"
    if isinstance(command := COMMANDS[name], c.Publish):
        # What a Publish holds is for the log to see: its kernel says where the messages end.
        assert gathered(frame, command)[0] == len(frame) - 1
        return
    with pytest.raises(MalformedFrame):
        decode(name, frame)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_cut_frame_is_malformed(name: str) -> None:
    frame = vector(name)
    if isinstance(COMMANDS[name], c.Publish):
        return
    for end in range(4, len(frame)):
        if end != OPTIONAL_FROM.get(name):
            with pytest.raises(MalformedFrame):
                decode(name, frame[:end])


def gathered(frame: bytes, command: c.Publish) -> tuple[int, bytes, bytes]:
    out, ids = bytearray(200), bytearray(8 * command.count)
    position, taken, _, _, size, _ = gather_published(
        frame, command.start, command.end, command.count, command.version == 2, -1, out, 0, 200, 9, ids, 0
    )
    assert taken == command.count
    return position, bytes(out[:size]), bytes(ids)


@pytest.mark.parametrize("name", ["client_publish_v1", "client_publish_v2", "client_publish_sub_batch"])
def test_the_log_takes_the_span_of_a_publish(name: str) -> None:
    frame = vector(name)
    command = decode(name, frame)
    assert isinstance(command, c.Publish)
    position, entries, ids = gathered(frame, command)
    assert position == command.end
    if name == "client_publish_sub_batch":
        assert (entries, ids) == (frame[21:], frame[13:21])
    else:
        assert entries == b"\0\0\0\3abc\0\0\0\2de"
    if name == "client_publish_v2":
        assert set(filter_values(frame, command.start, command.end, command.count)) == {b"eu", None}


def test_the_ids_of_a_publish_are_confirmed_and_refused_as_they_came() -> None:
    frame = vector("client_publish_v1")
    command = decode("client_publish_v1", frame)
    assert isinstance(command, c.Publish)
    ids = gathered(frame, command)[2]
    assert publish_confirm(7, ids) == vector("server_publish_confirm")
    assert publish_error(7, ids, ResponseCode.PUBLISHER_DOES_NOT_EXIST) == vector("server_publish_error")


def test_the_header_of_a_deliver_stands_before_the_chunk() -> None:
    first, second = vector("server_deliver_v1"), vector("server_deliver_v2")
    assert deliver_header(2, len(first) - 9) == first[:9]
    assert deliver_header(2, len(second) - 17, 44) == second[:17]
