"""The parsers of what stream clients and servers send: single frames, and both ends of a connection in any state."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.targets import check, target
from headwater.errors import MalformedFrame
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.codec import decode_request, decode_response, encode
from headwater.streams.commands import OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.connection import Connection, Failed, State
from headwater.streams.deliver import deliver_header
from headwater.streams.publish import encode_filtered_publish, encode_publish, publish_confirm
from headwater.streams.server_connection import ServerConnection

__all__: list[str] = []

_AT_5 = OffsetSpecification(OffsetType.OFFSET, 5)
_CHUNK = b"\x50\0\0\1\0\0\0\1" + bytes(24) + b"\0\0\0\0\0\0\0\7" + bytes(8) + b"\0\0\0\3abc"
_CUT = bytes([0, 40])
_UNKNOWN = b"\0\0\0\4\0\x20\0\1"
CLOSED = encode(c.CloseResponse(1, ResponseCode.OK))

REQUESTS: tuple[bytes, ...] = (
    *map(
        encode,
        (
            c.PeerPropertiesRequest(1, {"product": "x"}),
            c.SaslHandshakeRequest(2),
            c.SaslAuthenticateRequest(3, "PLAIN", b"\0a\0b"),
            c.TuneResponse(0x100000, 60),
            c.OpenRequest(4, "/"),
            c.ExchangeCommandVersionsRequest(5, (c.CommandVersion(8, 1, 2),)),
            c.DeclarePublisherRequest(6, 1, None, "s"),
            c.SubscribeRequest(7, 1, "s", _AT_5, 10, {"name": "n"}),
            c.StoreOffset("r", "s", 5),
            c.MetadataRequest(8, ("s", "t")),
            c.CreateSuperStreamRequest(9, "s", ("s-0",), ("0",), {"a": "b"}),
            c.ConsumerUpdateResponse(1, ResponseCode.OK, _AT_5),
            c.ResolveOffsetSpecRequest(10, "s", _AT_5, {"a": "b"}),
        ),
    ),
    encode_publish(1, [(1, b"abc")]),
    encode_filtered_publish(1, [(1, "f", b"abc")]),
    encode(c.CloseRequest(11, ResponseCode.OK, None)),
)
ASKED = (
    c.MetadataRequest(7, ("s",)),
    c.StreamStatsRequest(8, "s"),
    c.ResolveOffsetSpecRequest(9, "s", _AT_5),
)
"""What the responses answer."""
RESPONSES: tuple[bytes, ...] = (
    *map(
        encode,
        (
            c.PeerPropertiesResponse(1, ResponseCode.OK, {"version": "4.0.5"}),
            c.SaslHandshakeResponse(2, ResponseCode.OK, ("PLAIN",)),
            c.SaslAuthenticateResponse(3, ResponseCode.SASL_CHALLENGE, b"r="),
            c.SaslAuthenticateResponse(4, ResponseCode.OK),
            c.TuneRequest(0x100000, 60),
            c.OpenResponse(5, ResponseCode.OK, {"advertised_host": "h"}),
            c.ExchangeCommandVersionsResponse(6, ResponseCode.OK, (c.CommandVersion(2, 1, 2),)),
            c.MetadataResponse(7, (c.Broker(0, "h", 1),), (c.StreamMetadata("s", 1, 0, (0,)),)),
            c.PublishError(1, (c.PublishingError(1, 2),)),
            c.StreamStatsResponse(8, ResponseCode.OK, {"a": -1}),
            c.ConsumerUpdateRequest(1, 1, True),
            c.ResolveOffsetSpecResponse(9, ResponseCode.OK, _AT_5),
        ),
    ),
    publish_confirm(1, bytes(16)),
    deliver_header(1, len(_CHUNK), 5) + _CHUNK,
    encode(c.CloseRequest(10, ResponseCode.UNKNOWN_FRAME, "unknown")),
)


def _decoded(decode: Callable[[bytes, int, int], c.Command], data: bytes) -> None:
    command = decode(data, 0, len(data))
    if isinstance(command, c.Publish | c.PublishConfirm | c.Deliver):
        check(0 < command.start <= command.end == len(data), "a span lies outside of the frame")
        return
    again = encode(command)
    check(decode(again, 4, len(again)) == command, "another command was written")


@target("stream_request", MalformedFrame, seeds=[*(frame[4:] for frame in REQUESTS), CLOSED[4:]])
def fuzz_stream_request(data: bytes) -> None:
    _decoded(decode_request, data)


@target("stream_response", MalformedFrame, seeds=[*(frame[4:] for frame in RESPONSES), CLOSED[4:]])
def fuzz_stream_response(data: bytes) -> None:
    _decoded(decode_response, data)


def _received(connection: Connection, data: bytes, cut: int) -> None:
    """Bytes in two pieces; whoever asks is told yes."""
    answered, kept = len(connection.data_to_send()), b""
    for piece in (data[:cut], data[cut:], b"", b"", b""):
        kept += piece
        consumed, events = connection.receive(kept)
        check(0 <= consumed <= len(kept), "more was consumed than there is")
        kept = kept[consumed:]
        failures = sum(isinstance(event, Failed) for event in events)
        check(failures <= 1 and (not failures or connection.has_ended), "a failure did not end it")
        check(connection.state is not State.CLOSED or not kept, "bytes were left over at the end")
        _say_yes(connection)
        answered += len(connection.data_to_send())
    check(answered <= 2_000 + 20 * len(data), "more was answered than is in proportion")


def _say_yes(connection: Connection) -> None:
    if isinstance(connection, ServerConnection):
        if connection.state is State.AUTHENTICATING:
            connection.authenticated()
        elif connection.state is State.OPENING:
            connection.opened({"advertised_host": "h", "advertised_port": "1"})
            connection.request_consumer_update(1, active=True)
    elif isinstance(connection, ClientConnection) and connection.is_waiting:
        connection.authenticate("PLAIN", b"\0a\0b")


@target("stream_server", MalformedFrame, seeds=[_CUT + b"".join(REQUESTS), _CUT + _UNKNOWN + CLOSED])
def fuzz_stream_server(data: bytes) -> None:
    server = ServerConnection({"version": "4.0.5"}, ["PLAIN"], frame_size_bytes_max=8_192)
    if len(data) >= 2:
        _received(server, data[2:], int.from_bytes(data[:2], "big"))


@target("stream_client", MalformedFrame, seeds=[_CUT + b"".join(RESPONSES), _CUT + _UNKNOWN + CLOSED])
def fuzz_stream_client(data: bytes) -> None:
    client = ClientConnection({}, frame_size_bytes_max=8_192)
    for request in ASKED:
        client.send(request)
    if len(data) >= 2:
        _received(client, data[2:], int.from_bytes(data[:2], "big"))
