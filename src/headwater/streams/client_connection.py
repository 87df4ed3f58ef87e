"""RabbitMQ Streams protocol, Authentication: the client's end of a connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from headwater.streams import commands as c
from headwater.streams.codec import SERVER_DECODERS, Decoder, encode
from headwater.streams.commands import Command, CommandVersion, Key, Request, ResponseCode
from headwater.streams.connection import (
    FRAME_SIZE_BYTES_MAX,
    HEARTBEAT_S,
    Connection,
    Event,
    Handler,
    State,
    Table,
)
from headwater.streams.errors import ConnectionEnded, InvalidCommand, OutOfOrder
from headwater.streams.layouts import ANSWER, FROM_CLIENT, FROM_SERVER

__all__ = ["CLIENT_COMMANDS", "REQUESTS_PENDING_MAX", "ClientConnection"]

REQUESTS_PENDING_MAX = 65_536

CLIENT_COMMANDS = (CommandVersion(Key.PUBLISH, 1, 2), CommandVersion(Key.DELIVER, 1, 2))
"""What a server is told: with it, Deliver comes with the committed chunk id."""

_ALWAYS: dict[int, State] = {Key.CLOSE: State.CLOSED}


def _at(state: State, key: int, following: State) -> dict[int, State]:
    return {**_ALWAYS, Key.HEARTBEAT: state, ANSWER | key: following}


_ANSWERED = tuple(
    ANSWER | key
    for key in (
        Key.DECLARE_PUBLISHER,
        Key.QUERY_PUBLISHER_SEQUENCE,
        Key.DELETE_PUBLISHER,
        Key.SUBSCRIBE,
        Key.QUERY_OFFSET,
        Key.UNSUBSCRIBE,
        Key.CREATE,
        Key.DELETE,
        Key.METADATA,
        Key.ROUTE,
        Key.PARTITIONS,
        Key.STREAM_STATS,
        Key.CREATE_SUPER_STREAM,
        Key.DELETE_SUPER_STREAM,
        Key.RESOLVE_OFFSET_SPEC,
    )
)
_OPENED = (
    *_ANSWERED,
    ANSWER | Key.EXCHANGE_COMMAND_VERSIONS,
    ANSWER | Key.CREDIT,
    Key.PUBLISH_CONFIRM,
    Key.PUBLISH_ERROR,
    Key.DELIVER,
    Key.METADATA_UPDATE,
    Key.CONSUMER_UPDATE,
    Key.HEARTBEAT,
)

_TABLE: Table = {
    State.PEER_PROPERTIES: _at(State.PEER_PROPERTIES, Key.PEER_PROPERTIES, State.SASL_HANDSHAKE),
    State.SASL_HANDSHAKE: _at(State.SASL_HANDSHAKE, Key.SASL_HANDSHAKE, State.AUTHENTICATING),
    State.SASL_AUTHENTICATE: _at(State.SASL_AUTHENTICATE, Key.SASL_AUTHENTICATE, State.TUNE),
    State.TUNE: {**_ALWAYS, Key.HEARTBEAT: State.TUNE, Key.TUNE: State.OPEN},
    State.OPEN: _at(State.OPEN, Key.OPEN, State.OPENED),
    State.OPENED: _ALWAYS | dict.fromkeys(_OPENED, State.OPENED),
}


def _responses() -> dict[type[Command], type[Command]]:
    kinds = {layout.key: layout.kind for layout in FROM_SERVER}
    requests = [layout for layout in FROM_CLIENT if issubclass(layout.kind, Request)]
    return {layout.kind: kinds[ANSWER | layout.key] for layout in requests}


_RESPONSES = _responses()


class ClientConnection(Connection):
    """The client's end: says its part of the handshake by itself, and holds answers against requests.

    Events in their order: SaslHandshakeResponse (answer it by `authenticate`), SaslAuthenticateResponse (with a
    challenge: `authenticate` again; other failures have ended the connection), TuneRequest, OpenResponse, then answers
    and what the server sends by itself. Answers that refuse what was asked are events as well.
    """

    __slots__ = ("_own_properties", "_pending", "_virtual_host", "peer_properties", "server_commands")

    table: ClassVar[Table] = _TABLE
    decoders: ClassVar[Mapping[int, Decoder]] = SERVER_DECODERS
    # Two closes that cross would else wait for each other.
    last_keys: ClassVar[frozenset[int]] = frozenset({ANSWER | Key.CLOSE, Key.CLOSE})

    def __init__(
        self,
        peer_properties: Mapping[str, str],
        virtual_host: str = "/",
        *,
        frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX,
        heartbeat_s: int = HEARTBEAT_S,
    ) -> None:
        super().__init__(frame_size_bytes_max, heartbeat_s)
        self._virtual_host = virtual_host
        self._pending: dict[int, type[Command]] = {}
        self.peer_properties: dict[str, str] = {}
        """What the server says of itself."""
        self.server_commands: tuple[CommandVersion, ...] = ()
        """What the server takes, once it has said so."""
        self.send(c.PeerPropertiesRequest(self.next_correlation_id(), dict(peer_properties)))

    def next_correlation_id(self) -> int:
        """An id for the next request."""
        while (correlation_id := self._next_correlation_id()) in self._pending:
            pass
        return correlation_id

    def send(self, command: Command) -> None:
        """Queue a command; the answer to a request is an event with the id of the request."""
        if self.has_ended:
            raise ConnectionEnded(type(command).__name__)
        frame = encode(command)
        if isinstance(command, Request):
            if len(self._pending) >= REQUESTS_PENDING_MAX:
                raise InvalidCommand(
                    type(command).__name__, f"{REQUESTS_PENDING_MAX} requests are unanswered"
                )
            if command.correlation_id in self._pending:
                raise InvalidCommand(type(command).__name__, f"id {command.correlation_id} is in use")
            self._pending[command.correlation_id] = _RESPONSES[type(command)]
        self._out.append(frame)

    def send_frame(self, frame: bytes) -> None:
        """Queue a frame made by one of the functions for Publish."""
        if self.has_ended:
            raise ConnectionEnded("a frame")
        self._out.append(frame)

    def authenticate(self, mechanism: str, data: bytes | None) -> None:
        """Give the next message of the mechanism."""
        assert self.has_ended or self._state is State.AUTHENTICATING
        self.send(c.SaslAuthenticateRequest(self.next_correlation_id(), mechanism, data))
        self._enter(State.SASL_AUTHENTICATE)

    def _is_asked(self, command: Command, events: list[Event]) -> bool:
        """Whether this answers a request that was sent; else the connection ends."""
        assert isinstance(command, c.Response | c.MetadataResponse)
        if self._pending.pop(command.correlation_id, None) is type(command):
            return True
        self._refuse(OutOfOrder(f"{type(command).__name__} without a request", self._state.value), events)
        return False

    def _answered(self, command: Command, events: list[Event]) -> None:
        if self._is_asked(command, events):
            events.append(command)

    def _succeeded(self, command: c.Response, events: list[Event]) -> bool:
        """Whether a step of the handshake went well; else it is the last."""
        if not self._is_asked(command, events):
            return False
        if command.response_code == ResponseCode.OK:
            return True
        self._enter(State.CLOSED)
        events.append(command)
        return False

    def _exchange_properties(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.PeerPropertiesResponse)
        if self._succeeded(command, events):
            self.peer_properties = command.peer_properties
            self.send(c.SaslHandshakeRequest(self.next_correlation_id()))

    def _choose_mechanism(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.SaslHandshakeResponse)
        if self._succeeded(command, events):
            events.append(command)

    def _authenticated(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.SaslAuthenticateResponse)
        if command.response_code == ResponseCode.SASL_CHALLENGE:
            if self._is_asked(command, events):
                self._enter(State.AUTHENTICATING)
                events.append(command)
        elif self._succeeded(command, events):
            events.append(command)

    def _tune(self, command: Command, events: list[Event]) -> None:
        """Take the smaller of each value, where 0 leaves it to the other side."""
        assert isinstance(command, c.TuneRequest)
        events.append(command)
        self.frame_size_bytes_max = _smaller(self.frame_size_bytes_max, command.frame_max)
        self.heartbeat_s = _smaller(self.heartbeat_s, command.heartbeat)
        self._frame_size_bytes_max = max(self._frame_size_bytes_max, self.frame_size_bytes_max)
        self.send(c.TuneResponse(self.frame_size_bytes_max, self.heartbeat_s))
        self.send(c.OpenRequest(self.next_correlation_id(), self._virtual_host))

    def _opened(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.OpenResponse)
        if self._succeeded(command, events):
            events.append(command)
            if _knows_versions(self.peer_properties.get("version", "")):
                self.send(c.ExchangeCommandVersionsRequest(self.next_correlation_id(), CLIENT_COMMANDS))

    def _exchange_versions(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.ExchangeCommandVersionsResponse)
        if self._is_asked(command, events):
            self.server_commands = command.commands

    handlers: ClassVar[Mapping[int, Handler]] = {
        **dict.fromkeys(_ANSWERED, _answered),
        Key.TUNE: _tune,
        Key.CLOSE: Connection._answer_close,
        Key.HEARTBEAT: Connection._ignore,
        ANSWER | Key.PEER_PROPERTIES: _exchange_properties,
        ANSWER | Key.SASL_HANDSHAKE: _choose_mechanism,
        ANSWER | Key.SASL_AUTHENTICATE: _authenticated,
        ANSWER | Key.OPEN: _opened,
        ANSWER | Key.EXCHANGE_COMMAND_VERSIONS: _exchange_versions,
    }


def _knows_versions(server_version: str) -> bool:
    """RabbitMQ exchanges versions from 3.11 on, and closes on the attempt before; whoever else is asked."""
    number = re.match(r"(\d{1,9})\.(\d{1,9})", server_version)
    return number is None or (int(number[1]), int(number[2])) >= (3, 11)


def _smaller(own: int, other: int) -> int:
    return min(own, other) if own and other else own or other
