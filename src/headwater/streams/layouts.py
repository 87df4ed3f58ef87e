"""RabbitMQ Streams protocol, Commands: the layout of each, as a table to compare with the specification line by line.

A frame, and what stands behind its version:

    0  4  size, of all that follows        requests    correlation id 4, fields
    4  2  key, +0x8000 in an answer        responses   correlation id 4, code 2, fields
    6  2  version                          others      fields

Publish, PublishConfirm, PublishError and Deliver are drawn in `publish.py` and `deliver.py`.
"""

from __future__ import annotations

import struct
from types import NoneType
from typing import TypeAlias

from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import MalformedFrame
from headwater.streams import commands as c
from headwater.streams.commands import Key
from headwater.streams.errors import InvalidCommand, UnknownFrame
from headwater.streams.field_types import (
    Array,
    FieldType,
    Integer,
    OptionalLast,
    Properties,
    Record,
    boolean,
    int64,
    nullable_bytes,
    nullable_string,
    offset_specification,
    padded_offset_specification,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__ = ["ANSWER", "FRAME_HEADER", "FROM_CLIENT", "FROM_SERVER", "Layout"]

ANSWER = 0x8000
"""Added to the key of a request in the response to it."""
FRAME_HEADER = struct.Struct(">IHH")
"""Size, key, version."""

_VERSION = 1

_Step: TypeAlias = tuple[struct.Struct | None, FieldType]


class Layout:
    """One command in one direction: its key on the wire, and its fields in wire order."""

    def __init__(self, key: int, kind: type[c.Command], /, **fields: FieldType) -> None:
        self.key = key
        self.kind = kind
        self.fields = fields
        self._steps = _steps(list(fields.values()))

    def decode(self, buffer: ReadableBuffer, version: int, position: int, end: int) -> c.Command:
        """The command whose fields fill `position` to `end` exactly; raises MalformedFrame if they do not."""
        if version != _VERSION:
            raise UnknownFrame(self.key, version)
        values: list[object] = []
        for integers, field in self._steps:
            if integers is None:
                value, position = field.read(buffer, position, end)
                values.append(value)
            else:
                behind = position + integers.size
                if behind > end:
                    raise MalformedFrame(f"a {self.kind.__name__} is cut off")
                values += integers.unpack_from(buffer, position)
                position = behind
        if position != end:
            raise MalformedFrame(f"a {self.kind.__name__} has {end - position} bytes too many")
        return self.kind(*values)

    def encode(self, command: c.Command) -> bytes:
        """The whole frame; raises InvalidCommand if a field has no such form."""
        out = bytearray(FRAME_HEADER.size)
        try:
            for name, field in self.fields.items():
                field.write(out, getattr(command, name))
            FRAME_HEADER.pack_into(out, 0, len(out) - 4, self.key, _VERSION)
        except (struct.error, ValueError) as error:
            # Without its cause, which may hold the value: that is a secret in a SaslAuthenticate.
            raise InvalidCommand(self.kind.__name__, str(error)) from None
        return bytes(out)


def _steps(fields: list[FieldType]) -> list[_Step]:
    """The fields, with neighbouring integers put together: they are read at once."""
    steps: list[_Step] = []
    code = ""
    for index, field in enumerate(fields):
        if not isinstance(field, Integer):
            steps.append((None, field))
            continue
        code += field.code
        if index + 1 == len(fields) or not isinstance(fields[index + 1], Integer):
            steps.append((struct.Struct(">" + code), field))
            code = ""
    return steps


def _code_alone(key: Key, kind: type[c.Response]) -> Layout:
    return Layout(ANSWER | key, kind, correlation_id=uint32, response_code=uint16)


_properties = Properties(string)
_strings = Array(string)
_versions = Array(Record(c.CommandVersion, ("key", uint16), ("min_version", uint16), ("max_version", uint16)))
_brokers = Array(Record(c.Broker, ("reference", uint16), ("host", string), ("port", uint32)))
_stream_metadata = Array(
    Record(
        c.StreamMetadata,
        ("stream_name", string),
        ("response_code", uint16),
        ("leader_reference", uint16),
        ("replicas_references", Array(uint16)),
    )
)
_errors = Array(Record(c.PublishingError, ("publishing_id", uint64), ("code", uint16)))

# fmt: off
FROM_CLIENT = (
    Layout(Key.DECLARE_PUBLISHER, c.DeclarePublisherRequest, correlation_id=uint32, publisher_id=uint8,
           publisher_reference=nullable_string, stream=string),
    Layout(Key.QUERY_PUBLISHER_SEQUENCE, c.QueryPublisherSequenceRequest, correlation_id=uint32,
           publisher_reference=string, stream=string),
    Layout(Key.DELETE_PUBLISHER, c.DeletePublisherRequest, correlation_id=uint32, publisher_id=uint8),
    Layout(Key.SUBSCRIBE, c.SubscribeRequest, correlation_id=uint32, subscription_id=uint8, stream=string,
           offset_specification=offset_specification, credit=uint16,
           properties=OptionalLast(_properties, dict)),
    Layout(Key.CREDIT, c.Credit, subscription_id=uint8, credit=uint16),
    Layout(Key.STORE_OFFSET, c.StoreOffset, reference=string, stream=string, offset=uint64),
    Layout(Key.QUERY_OFFSET, c.QueryOffsetRequest, correlation_id=uint32, reference=string, stream=string),
    Layout(Key.UNSUBSCRIBE, c.UnsubscribeRequest, correlation_id=uint32, subscription_id=uint8),
    Layout(Key.CREATE, c.CreateRequest, correlation_id=uint32, stream=string, arguments=_properties),
    Layout(Key.DELETE, c.DeleteRequest, correlation_id=uint32, stream=string),
    Layout(Key.METADATA, c.MetadataRequest, correlation_id=uint32, streams=_strings),
    Layout(Key.PEER_PROPERTIES, c.PeerPropertiesRequest, correlation_id=uint32, peer_properties=_properties),
    Layout(Key.SASL_HANDSHAKE, c.SaslHandshakeRequest, correlation_id=uint32),
    Layout(Key.SASL_AUTHENTICATE, c.SaslAuthenticateRequest, correlation_id=uint32, mechanism=string,
           sasl_opaque_data=nullable_bytes),
    Layout(ANSWER | Key.TUNE, c.TuneResponse, frame_max=uint32, heartbeat=uint32),
    Layout(Key.OPEN, c.OpenRequest, correlation_id=uint32, virtual_host=string),
    Layout(Key.CLOSE, c.CloseRequest, correlation_id=uint32, closing_code=uint16, closing_reason=nullable_string),
    _code_alone(Key.CLOSE, c.CloseResponse),
    Layout(Key.HEARTBEAT, c.Heartbeat),
    Layout(Key.ROUTE, c.RouteRequest, correlation_id=uint32, routing_key=string, super_stream=string),
    Layout(Key.PARTITIONS, c.PartitionsRequest, correlation_id=uint32, super_stream=string),
    Layout(ANSWER | Key.CONSUMER_UPDATE, c.ConsumerUpdateResponse, correlation_id=uint32, response_code=uint16,
           offset_specification=padded_offset_specification),
    Layout(Key.EXCHANGE_COMMAND_VERSIONS, c.ExchangeCommandVersionsRequest, correlation_id=uint32,
           commands=_versions),
    Layout(Key.STREAM_STATS, c.StreamStatsRequest, correlation_id=uint32, stream=string),
    Layout(Key.CREATE_SUPER_STREAM, c.CreateSuperStreamRequest, correlation_id=uint32, name=string,
           partitions=_strings, binding_keys=_strings, arguments=_properties),
    Layout(Key.DELETE_SUPER_STREAM, c.DeleteSuperStreamRequest, correlation_id=uint32, name=string),
    Layout(Key.RESOLVE_OFFSET_SPEC, c.ResolveOffsetSpecRequest, correlation_id=uint32, stream=string,
           offset_specification=offset_specification, properties=OptionalLast(_properties, dict)),
)
"""What a client sends. Its answer to a Tune comes under the key of the request as well."""

FROM_SERVER = (
    _code_alone(Key.DECLARE_PUBLISHER, c.DeclarePublisherResponse),
    Layout(Key.PUBLISH_ERROR, c.PublishError, publisher_id=uint8, publishing_errors=_errors),
    Layout(ANSWER | Key.QUERY_PUBLISHER_SEQUENCE, c.QueryPublisherSequenceResponse, correlation_id=uint32,
           response_code=uint16, sequence=uint64),
    _code_alone(Key.DELETE_PUBLISHER, c.DeletePublisherResponse),
    _code_alone(Key.SUBSCRIBE, c.SubscribeResponse),
    Layout(ANSWER | Key.CREDIT, c.CreditResponse, response_code=uint16, subscription_id=uint8),
    Layout(ANSWER | Key.QUERY_OFFSET, c.QueryOffsetResponse, correlation_id=uint32, response_code=uint16,
           offset=uint64),
    _code_alone(Key.UNSUBSCRIBE, c.UnsubscribeResponse),
    _code_alone(Key.CREATE, c.CreateResponse),
    _code_alone(Key.DELETE, c.DeleteResponse),
    Layout(ANSWER | Key.METADATA, c.MetadataResponse, correlation_id=uint32, brokers=_brokers,
           stream_metadata=_stream_metadata),
    Layout(Key.METADATA_UPDATE, c.MetadataUpdate, code=uint16, stream=string),
    Layout(ANSWER | Key.PEER_PROPERTIES, c.PeerPropertiesResponse, correlation_id=uint32, response_code=uint16,
           peer_properties=_properties),
    Layout(ANSWER | Key.SASL_HANDSHAKE, c.SaslHandshakeResponse, correlation_id=uint32, response_code=uint16,
           mechanisms=_strings),
    Layout(ANSWER | Key.SASL_AUTHENTICATE, c.SaslAuthenticateResponse, correlation_id=uint32,
           response_code=uint16, sasl_opaque_data=OptionalLast(nullable_bytes, NoneType)),
    Layout(Key.TUNE, c.TuneRequest, frame_max=uint32, heartbeat=uint32),
    Layout(ANSWER | Key.OPEN, c.OpenResponse, correlation_id=uint32, response_code=uint16,
           connection_properties=OptionalLast(_properties, dict)),
    Layout(Key.CLOSE, c.CloseRequest, correlation_id=uint32, closing_code=uint16, closing_reason=nullable_string),
    _code_alone(Key.CLOSE, c.CloseResponse),
    Layout(Key.HEARTBEAT, c.Heartbeat),
    Layout(ANSWER | Key.ROUTE, c.RouteResponse, correlation_id=uint32, response_code=uint16, streams=_strings),
    Layout(ANSWER | Key.PARTITIONS, c.PartitionsResponse, correlation_id=uint32, response_code=uint16,
           streams=_strings),
    Layout(Key.CONSUMER_UPDATE, c.ConsumerUpdateRequest, correlation_id=uint32, subscription_id=uint8,
           active=boolean),
    Layout(ANSWER | Key.EXCHANGE_COMMAND_VERSIONS, c.ExchangeCommandVersionsResponse, correlation_id=uint32,
           response_code=uint16, commands=_versions),
    Layout(ANSWER | Key.STREAM_STATS, c.StreamStatsResponse, correlation_id=uint32, response_code=uint16,
           stats=Properties(int64)),
    _code_alone(Key.CREATE_SUPER_STREAM, c.CreateSuperStreamResponse),
    _code_alone(Key.DELETE_SUPER_STREAM, c.DeleteSuperStreamResponse),
    Layout(ANSWER | Key.RESOLVE_OFFSET_SPEC, c.ResolveOffsetSpecResponse, correlation_id=uint32,
           response_code=uint16, offset_specification=offset_specification),
)
"""What a server sends. Arrays are there whatever the code is: a client in Go reads them without looking at it."""
# fmt: on
