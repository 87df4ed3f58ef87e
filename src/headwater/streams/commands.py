"""RabbitMQ Streams protocol, Commands: keys, response codes, and a value for each command in each direction.

Fields stand in wire order under the names of the specification; how each is written says `layouts.py`.
"""

from __future__ import annotations

import enum

import msgspec

from headwater.encoding.chunk import ChunkHeader

__all__ = [
    "NO_LEADER",
    "Broker",
    "CloseRequest",
    "CloseResponse",
    "Command",
    "CommandVersion",
    "ConsumerUpdateRequest",
    "ConsumerUpdateResponse",
    "CreateRequest",
    "CreateResponse",
    "CreateSuperStreamRequest",
    "CreateSuperStreamResponse",
    "Credit",
    "CreditResponse",
    "DeclarePublisherRequest",
    "DeclarePublisherResponse",
    "DeletePublisherRequest",
    "DeletePublisherResponse",
    "DeleteRequest",
    "DeleteResponse",
    "DeleteSuperStreamRequest",
    "DeleteSuperStreamResponse",
    "Deliver",
    "ExchangeCommandVersionsRequest",
    "ExchangeCommandVersionsResponse",
    "Heartbeat",
    "Key",
    "MetadataRequest",
    "MetadataResponse",
    "MetadataUpdate",
    "OffsetSpecification",
    "OffsetType",
    "OpenRequest",
    "OpenResponse",
    "PartitionsRequest",
    "PartitionsResponse",
    "PeerPropertiesRequest",
    "PeerPropertiesResponse",
    "Publish",
    "PublishConfirm",
    "PublishError",
    "PublishingError",
    "QueryOffsetRequest",
    "QueryOffsetResponse",
    "QueryPublisherSequenceRequest",
    "QueryPublisherSequenceResponse",
    "Request",
    "ResolveOffsetSpecRequest",
    "ResolveOffsetSpecResponse",
    "Response",
    "ResponseCode",
    "RouteRequest",
    "RouteResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "StoreOffset",
    "StreamMetadata",
    "StreamStatsRequest",
    "StreamStatsResponse",
    "SubscribeRequest",
    "SubscribeResponse",
    "TuneRequest",
    "TuneResponse",
    "UnsubscribeRequest",
    "UnsubscribeResponse",
]

NO_LEADER = 0xFFFF
"""As `leader_reference`: none of the brokers leads the stream."""


class Key(enum.IntEnum):
    """What a frame is; with the topmost bit set, the answer to it."""

    DECLARE_PUBLISHER = 0x01
    PUBLISH = 0x02
    PUBLISH_CONFIRM = 0x03
    PUBLISH_ERROR = 0x04
    QUERY_PUBLISHER_SEQUENCE = 0x05
    DELETE_PUBLISHER = 0x06
    SUBSCRIBE = 0x07
    DELIVER = 0x08
    CREDIT = 0x09
    STORE_OFFSET = 0x0A
    QUERY_OFFSET = 0x0B
    UNSUBSCRIBE = 0x0C
    CREATE = 0x0D
    DELETE = 0x0E
    METADATA = 0x0F
    METADATA_UPDATE = 0x10
    PEER_PROPERTIES = 0x11
    SASL_HANDSHAKE = 0x12
    SASL_AUTHENTICATE = 0x13
    TUNE = 0x14
    OPEN = 0x15
    CLOSE = 0x16
    HEARTBEAT = 0x17
    ROUTE = 0x18
    PARTITIONS = 0x19
    CONSUMER_UPDATE = 0x1A
    EXCHANGE_COMMAND_VERSIONS = 0x1B
    STREAM_STATS = 0x1C
    CREATE_SUPER_STREAM = 0x1D
    DELETE_SUPER_STREAM = 0x1E
    RESOLVE_OFFSET_SPEC = 0x1F


class ResponseCode(enum.IntEnum):
    """How a request ended, why a message was refused, or why a connection is closed."""

    OK = 0x01
    STREAM_DOES_NOT_EXIST = 0x02
    SUBSCRIPTION_ID_ALREADY_EXISTS = 0x03
    SUBSCRIPTION_ID_DOES_NOT_EXIST = 0x04
    STREAM_ALREADY_EXISTS = 0x05
    STREAM_NOT_AVAILABLE = 0x06
    SASL_MECHANISM_NOT_SUPPORTED = 0x07
    AUTHENTICATION_FAILURE = 0x08
    SASL_ERROR = 0x09
    SASL_CHALLENGE = 0x0A
    SASL_AUTHENTICATION_FAILURE_LOOPBACK = 0x0B
    VIRTUAL_HOST_ACCESS_FAILURE = 0x0C
    UNKNOWN_FRAME = 0x0D
    FRAME_TOO_LARGE = 0x0E
    INTERNAL_ERROR = 0x0F
    ACCESS_REFUSED = 0x10
    PRECONDITION_FAILED = 0x11
    PUBLISHER_DOES_NOT_EXIST = 0x12
    NO_OFFSET = 0x13


class OffsetType(enum.IntEnum):
    """Where to begin; NONE, in a ConsumerUpdate alone, leaves it to the subscription."""

    NONE = 0
    FIRST = 1
    LAST = 2
    NEXT = 3
    OFFSET = 4
    TIMESTAMP = 5


class OffsetSpecification(msgspec.Struct, frozen=True, gc=False):
    """A place in a stream; only OFFSET and TIMESTAMP (milliseconds, signed) have a value."""

    type: OffsetType
    value: int = 0


class CommandVersion(msgspec.Struct, frozen=True, gc=False):
    """The versions of one command that a peer speaks."""

    key: int
    min_version: int
    max_version: int


class Broker(msgspec.Struct, frozen=True, gc=False):
    """A server, and the number by which the streams below name it."""

    reference: int
    host: str
    port: int


class StreamMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a stream is led and copied."""

    stream_name: str
    response_code: int
    leader_reference: int
    replicas_references: tuple[int, ...] = ()


class PublishingError(msgspec.Struct, frozen=True, gc=False):
    """A message that was not taken, and why."""

    publishing_id: int
    code: int


class Command(msgspec.Struct, frozen=True, gc=False):
    """A frame of either side."""


class Request(Command, frozen=True, gc=False):
    """A command that is answered under its correlation id."""

    correlation_id: int


class Response(Command, frozen=True, gc=False):
    """The answer to a request; a code that this version does not know stays the number it is."""

    correlation_id: int
    response_code: int


# Publishing


class DeclarePublisherRequest(Request, frozen=True, gc=False):
    """A reference that is empty or None means none."""

    publisher_id: int
    publisher_reference: str | None
    stream: str


class DeclarePublisherResponse(Response, frozen=True, gc=False):
    pass


class Publish(Command, frozen=True, gc=False):
    """The messages stand in the read buffer, at `start` to `end`; what they are says `encoding/_kernel.py`."""

    publisher_id: int
    version: int
    count: int
    start: int
    end: int


class PublishConfirm(Command, frozen=True, gc=False):
    """`count` ids of 8 bytes each stand in the read buffer, at `start` to `end`."""

    publisher_id: int
    count: int
    start: int
    end: int


class PublishError(Command, frozen=True, gc=False):
    publisher_id: int
    publishing_errors: tuple[PublishingError, ...]


class QueryPublisherSequenceRequest(Request, frozen=True, gc=False):
    publisher_reference: str
    stream: str


class QueryPublisherSequenceResponse(Response, frozen=True, gc=False):
    """The sequence is on the wire whatever the code is."""

    sequence: int = 0


class DeletePublisherRequest(Request, frozen=True, gc=False):
    publisher_id: int


class DeletePublisherResponse(Response, frozen=True, gc=False):
    pass


# Consuming


class SubscribeRequest(Request, frozen=True, gc=False):
    subscription_id: int
    stream: str
    offset_specification: OffsetSpecification
    credit: int
    properties: dict[str, str] = {}


class SubscribeResponse(Response, frozen=True, gc=False):
    pass


class Deliver(Command, frozen=True, gc=False):
    """The chunk, header and data, stands in the read buffer, at `start` to `end`; version 1 has no committed chunk."""

    subscription_id: int
    committed_chunk_id: int | None
    header: ChunkHeader
    start: int
    end: int


class Credit(Command, frozen=True, gc=False):
    """How many chunks more may be sent."""

    subscription_id: int
    credit: int


class CreditResponse(Command, frozen=True, gc=False):
    """Sent on errors alone, and without a correlation id."""

    response_code: int
    subscription_id: int


class StoreOffset(Command, frozen=True, gc=False):
    reference: str
    stream: str
    offset: int


class QueryOffsetRequest(Request, frozen=True, gc=False):
    reference: str
    stream: str


class QueryOffsetResponse(Response, frozen=True, gc=False):
    """The offset is on the wire whatever the code is."""

    offset: int = 0


class UnsubscribeRequest(Request, frozen=True, gc=False):
    subscription_id: int


class UnsubscribeResponse(Response, frozen=True, gc=False):
    pass


class ConsumerUpdateRequest(Request, frozen=True, gc=False):
    """Sent by the server: the subscription becomes active, or stops to be."""

    subscription_id: int
    active: bool


class ConsumerUpdateResponse(Response, frozen=True, gc=False):
    """Sent by the client: where to begin."""

    offset_specification: OffsetSpecification


class ResolveOffsetSpecRequest(Request, frozen=True, gc=False):
    stream: str
    offset_specification: OffsetSpecification
    properties: dict[str, str] = {}


class ResolveOffsetSpecResponse(Response, frozen=True, gc=False):
    """The specification is on the wire whatever the code is: OFFSET and, on errors, 0."""

    offset_specification: OffsetSpecification = OffsetSpecification(OffsetType.OFFSET)


# Streams and super streams


class CreateRequest(Request, frozen=True, gc=False):
    stream: str
    arguments: dict[str, str] = {}


class CreateResponse(Response, frozen=True, gc=False):
    pass


class DeleteRequest(Request, frozen=True, gc=False):
    stream: str


class DeleteResponse(Response, frozen=True, gc=False):
    pass


class MetadataRequest(Request, frozen=True, gc=False):
    streams: tuple[str, ...]


class MetadataResponse(Command, frozen=True, gc=False):
    """Has a code for each stream and none of its own."""

    correlation_id: int
    brokers: tuple[Broker, ...]
    stream_metadata: tuple[StreamMetadata, ...]


class MetadataUpdate(Command, frozen=True, gc=False):
    """Clients know the code STREAM_NOT_AVAILABLE alone."""

    code: int
    stream: str


class CreateSuperStreamRequest(Request, frozen=True, gc=False):
    name: str
    partitions: tuple[str, ...]
    binding_keys: tuple[str, ...]
    arguments: dict[str, str] = {}


class CreateSuperStreamResponse(Response, frozen=True, gc=False):
    pass


class DeleteSuperStreamRequest(Request, frozen=True, gc=False):
    name: str


class DeleteSuperStreamResponse(Response, frozen=True, gc=False):
    pass


class RouteRequest(Request, frozen=True, gc=False):
    routing_key: str
    super_stream: str


class RouteResponse(Response, frozen=True, gc=False):
    streams: tuple[str, ...] = ()


class PartitionsRequest(Request, frozen=True, gc=False):
    super_stream: str


class PartitionsResponse(Response, frozen=True, gc=False):
    streams: tuple[str, ...] = ()


class StreamStatsRequest(Request, frozen=True, gc=False):
    stream: str


class StreamStatsResponse(Response, frozen=True, gc=False):
    stats: dict[str, int] = {}


# The connection


class PeerPropertiesRequest(Request, frozen=True, gc=False):
    peer_properties: dict[str, str]


class PeerPropertiesResponse(Response, frozen=True, gc=False):
    peer_properties: dict[str, str] = {}


class SaslHandshakeRequest(Request, frozen=True, gc=False):
    pass


class SaslHandshakeResponse(Response, frozen=True, gc=False):
    mechanisms: tuple[str, ...] = ()


class SaslAuthenticateRequest(Request, frozen=True, gc=False):
    """The data is a secret and stays out of what is printed."""

    mechanism: str
    sasl_opaque_data: bytes | None

    def __repr__(self) -> str:
        return _without_data(self)

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return _shown(self)


class SaslAuthenticateResponse(Response, frozen=True, gc=False):
    """Only a challenge has data; it stays out of what is printed."""

    sasl_opaque_data: bytes | None = None

    def __repr__(self) -> str:
        return _without_data(self)

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return _shown(self)


class TuneRequest(Command, frozen=True, gc=False):
    """Sent by the server; 0 is no limit and no heartbeat, and there is no correlation id."""

    frame_max: int
    heartbeat: int


class TuneResponse(Command, frozen=True, gc=False):
    """Sent by the client, whose values hold."""

    frame_max: int
    heartbeat: int


class OpenRequest(Request, frozen=True, gc=False):
    virtual_host: str


class OpenResponse(Response, frozen=True, gc=False):
    connection_properties: dict[str, str] = {}


class CloseRequest(Request, frozen=True, gc=False):
    closing_code: int
    closing_reason: str | None


class CloseResponse(Response, frozen=True, gc=False):
    pass


class Heartbeat(Command, frozen=True, gc=False):
    pass


class ExchangeCommandVersionsRequest(Request, frozen=True, gc=False):
    commands: tuple[CommandVersion, ...]


class ExchangeCommandVersionsResponse(Response, frozen=True, gc=False):
    commands: tuple[CommandVersion, ...] = ()


def _without_data(command: SaslAuthenticateRequest | SaslAuthenticateResponse) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in _shown(command))
    return f"{type(command).__name__}({shown})"


def _shown(command: SaslAuthenticateRequest | SaslAuthenticateResponse) -> list[tuple[str, object]]:
    return [
        (name, getattr(command, name)) for name in command.__struct_fields__ if name != "sasl_opaque_data"
    ]
