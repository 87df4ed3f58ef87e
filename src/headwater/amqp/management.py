"""AMQP Management 1.0 (working draft): requests out of messages, and responses as messages.

A request is sent to the management node, and says what is to be done in its application properties:

    operation, type, name or identity, locales, arguments of the operation       body: an amqp-value, mostly a map

Its response goes to the reply-to of the request, under its correlation-id or else its message-id:

    statusCode, statusDescription, what the operation has to say besides         body: an amqp-value
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headwater.encoding.amqp_message import (
    AmqpValue,
    Message,
    MessageId,
    Properties,
    decode_message,
    encode_message,
)
from headwater.encoding.amqp_types import Array, Int, Symbol, Uint
from headwater.errors import PeerError

__all__ = [
    "MANAGEMENT_NODE",
    "MANAGEMENT_TYPE",
    "OperationFailed",
    "Request",
    "RequestMessage",
    "Response",
    "StatusCode",
    "encode_response",
]

MANAGEMENT_NODE: Final = "$management"
MANAGEMENT_TYPE: Final = "org.amqp.management"
"""Of the management node itself, to which queries and questions about types are addressed."""


class StatusCode(enum.IntEnum):
    """What became of a request, in the numbers of HTTP."""

    OK = 200
    CREATED = 201
    NO_CONTENT = 204
    BAD_REQUEST = 400
    FORBIDDEN = 403
    NOT_FOUND = 404
    CONFLICT = 409
    RESPONSE_TOO_LARGE = 413
    INTERNAL_ERROR = 500
    NOT_IMPLEMENTED = 501
    SERVICE_UNAVAILABLE = 503

    @property
    def phrase(self) -> str:
        """The same in words."""
        return self.name.replace("_", " ").title() if self is not StatusCode.OK else "OK"


class OperationFailed(PeerError):
    """A request that is answered with an error."""

    def __init__(self, status: StatusCode, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(f"{int(status)}: {reason}")

    @property
    def response(self) -> Response:
        """The response that says so."""
        return Response(self.status, description=self.reason)


class Response(msgspec.Struct, frozen=True):
    """What is answered to a request."""

    status: StatusCode
    body: Any = msgspec.field(default_factory=dict)
    properties: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """What the operation says besides its body."""
    description: str = ""


class Request(msgspec.Struct, frozen=True):
    """What is asked for; integers, symbols and arrays in it are plain ones."""

    operation: str
    type: str
    name: str | None
    identity: str | None
    arguments: Mapping[str, Any]
    """All application properties."""
    body: Any

    def text(self, argument: str) -> str | None:
        """An argument that is text; raises `OperationFailed`."""
        return _text(self.arguments, argument)

    def number(self, argument: str) -> int | None:
        """An argument that is a whole number, perhaps written as text; raises `OperationFailed`."""
        found = self.arguments.get(argument)
        if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= _DIGITS_MAX:
            found = int(found)
        if found is None or (isinstance(found, int) and not isinstance(found, bool) and found >= 0):
            return found
        raise OperationFailed(
            StatusCode.BAD_REQUEST, f"{argument} is {found!r:.100}, expected a whole number"
        )

    def map_body(self) -> dict[str, Any]:
        """The body as a map of names to values; nothing at all counts as an empty one. Raises `OperationFailed`."""
        body = self.body or {}
        if isinstance(body, dict) and all(isinstance(key, str) for key in body):
            return body
        reason = "the body is no map of names to values; send an amqp-value section that holds one"
        raise OperationFailed(StatusCode.BAD_REQUEST, reason)


class RequestMessage(msgspec.Struct, frozen=True):
    """A message to the management node, of which no more is known yet than where an answer goes."""

    message: Message

    @classmethod
    def decode(cls, data: bytes) -> RequestMessage:
        """The message that these bytes are; raises MalformedValue."""
        return cls(decode_message(data, 0, len(data)))

    @property
    def reply_to(self) -> str | None:
        """Where the response is wanted."""
        return self._properties.reply_to

    @property
    def correlation_id(self) -> MessageId | None:
        """What the response repeats."""
        found = self._properties.correlation_id
        return self._properties.message_id if found is None else found

    def request(self) -> Request:
        """What it asks for; raises `OperationFailed`."""
        given = {name: _plain(value) for name, value in (self.message.application_properties or {}).items()}
        operation, type_ = _text(given, "operation"), _text(given, "type")
        if not operation or not type_:
            missing = "type" if operation else "operation"
            reason = f"the application property {missing!r} is missing; it says what is asked for"
            raise OperationFailed(StatusCode.BAD_REQUEST, reason)
        body = self.message.body
        return Request(
            operation,
            type_,
            _text(given, "name"),
            _text(given, "identity"),
            given,
            _plain(body.value) if isinstance(body, AmqpValue) else body,
        )

    @property
    def _properties(self) -> Properties:
        return self.message.properties or Properties()


def encode_response(response: Response, to: str | None, correlation_id: MessageId | None) -> bytes:
    """The message that a response is; raises InvalidValue if what it says has no form in AMQP."""
    status = response.status
    return encode_message(
        Message(
            properties=Properties(to=to, correlation_id=correlation_id),
            application_properties={
                "statusCode": Int(status),
                "statusDescription": response.description or status.phrase,
                **{name: _written(value) for name, value in response.properties.items()},
            },
            body=AmqpValue(response.body),
        )
    )


_DIGITS_MAX = 18


def _text(given: Mapping[str, Any], name: str) -> str | None:
    found = given.get(name)
    if found is None or isinstance(found, str):
        return found
    raise OperationFailed(StatusCode.BAD_REQUEST, f"{name} is {found!r:.100}, expected text")


def _written(value: object) -> object:
    # Counts go as uint, as the draft has them.
    return Uint(value) if type(value) is int else value


def _plain(value: Any) -> Any:  # noqa: ANN401 - of any type
    """The same without the classes that tell AMQP's types apart."""
    if isinstance(value, Symbol):
        return str(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Array):
        return [_plain(each) for each in value.items]
    if isinstance(value, dict):
        return {str(key) if isinstance(key, Symbol) else key: _plain(each) for key, each in value.items()}
    return value
