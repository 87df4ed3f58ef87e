"""RabbitMQ Streams protocol, Authentication: the server's end of a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from headwater.encoding.chunk import ReadableBuffer
from headwater.streams import commands as c
from headwater.streams.codec import CLIENT_DECODERS, Decoder, encode
from headwater.streams.commands import Command, CommandVersion, Key, ResponseCode
from headwater.streams.connection import (
    FRAME_SIZE_BYTES_MAX,
    HEARTBEAT_S,
    Connection,
    Event,
    Handler,
    State,
    Table,
)
from headwater.streams.deliver import deliver_header
from headwater.streams.layouts import ANSWER
from headwater.streams.publish import publish_confirm, publish_error

__all__ = [
    "AUTHENTICATION_ROUNDS_MAX",
    "CONSUMER_UPDATES_PENDING_MAX",
    "SERVER_COMMANDS",
    "ServerConnection",
]

AUTHENTICATION_ROUNDS_MAX = 10
CONSUMER_UPDATES_PENDING_MAX = 1_024

SERVER_COMMANDS = tuple(
    CommandVersion(key, 1, 2 if key == Key.PUBLISH else 1)
    for key in (1, 2, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 22, 23, 24, 25, 28, 29, 30, 31)
)
"""What clients are told; rstream takes the second for that of Publish."""

_ALWAYS: dict[int, State] = {Key.CLOSE: State.CLOSED}


def _at(state: State, key: int, following: State) -> dict[int, State]:
    return {**_ALWAYS, Key.HEARTBEAT: state, key: following}


_OPENED = (
    Key.DECLARE_PUBLISHER,
    Key.PUBLISH,
    Key.QUERY_PUBLISHER_SEQUENCE,
    Key.DELETE_PUBLISHER,
    Key.SUBSCRIBE,
    Key.CREDIT,
    Key.STORE_OFFSET,
    Key.QUERY_OFFSET,
    Key.UNSUBSCRIBE,
    Key.CREATE,
    Key.DELETE,
    Key.METADATA,
    Key.ROUTE,
    Key.PARTITIONS,
    ANSWER | Key.CONSUMER_UPDATE,
    Key.EXCHANGE_COMMAND_VERSIONS,
    Key.STREAM_STATS,
    Key.CREATE_SUPER_STREAM,
    Key.DELETE_SUPER_STREAM,
    Key.RESOLVE_OFFSET_SPEC,
    Key.HEARTBEAT,
)

_TABLE: Table = {
    State.PEER_PROPERTIES: _at(State.PEER_PROPERTIES, Key.PEER_PROPERTIES, State.SASL_HANDSHAKE),
    State.SASL_HANDSHAKE: _at(State.SASL_HANDSHAKE, Key.SASL_HANDSHAKE, State.SASL_AUTHENTICATE),
    State.SASL_AUTHENTICATE: _at(State.SASL_AUTHENTICATE, Key.SASL_AUTHENTICATE, State.AUTHENTICATING),
    State.TUNE: _at(State.TUNE, Key.TUNE, State.OPEN) | {ANSWER | Key.TUNE: State.OPEN},
    State.OPEN: _at(State.OPEN, Key.OPEN, State.OPENING),
    State.OPENED: _ALWAYS | dict.fromkeys(_OPENED, State.OPENED),
}


class ServerConnection(Connection):
    """The server's end: answers what the protocol alone decides, and gives the rest as events.

    Events in their order: PeerPropertiesRequest, SaslAuthenticateRequest, of whatever mechanism (answer it by
    `challenge`, `authenticated` or `refuse_authentication`), TuneResponse, OpenRequest (`opened` or `refuse_open`),
    then the client's commands. Answers to those are sent with `send`; one that comes after the end is dropped.
    """

    __slots__ = (
        "_consumer_updates",
        "_frame_size_bytes_max_own",
        "_mechanisms",
        "_own_properties",
        "_request_id",
        "_rounds",
        "mechanism",
        "peer_is_javascript",
        "peer_properties",
        "takes_committed_chunk_id",
    )

    table: ClassVar[Table] = _TABLE
    decoders: ClassVar[Mapping[int, Decoder]] = CLIENT_DECODERS

    def __init__(
        self,
        peer_properties: Mapping[str, str],
        mechanisms: Sequence[str],
        *,
        frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX,
        heartbeat_s: int = HEARTBEAT_S,
    ) -> None:
        super().__init__(frame_size_bytes_max, heartbeat_s)
        self._frame_size_bytes_max_own = frame_size_bytes_max
        self._own_properties = dict(peer_properties)
        self._mechanisms = tuple(mechanisms)
        self.mechanism = ""
        """How the client proved who it is."""
        self._rounds = 0
        self._request_id = 0
        self._consumer_updates: set[int] = set()
        self.peer_properties: dict[str, str] = {}
        """What the client says of itself."""
        self.peer_is_javascript = False
        """Whether it is the JavaScript client, which needs some care."""
        self.takes_committed_chunk_id = False
        """Whether the client takes version 2 of Deliver."""

    # What the shell answers

    def challenge(self, data: bytes) -> None:
        """Ask the client for one more round of authentication."""
        if self._awaits(State.AUTHENTICATING):
            self._queue(c.SaslAuthenticateResponse(self._request_id, ResponseCode.SASL_CHALLENGE, data))
            self._enter(State.SASL_AUTHENTICATE)
            self.has_more = True

    def authenticated(self) -> None:
        """Tell the client that it is in, and what is proposed to tune."""
        if self._awaits(State.AUTHENTICATING):
            self._queue(c.SaslAuthenticateResponse(self._request_id, ResponseCode.OK))
            self._queue(c.TuneRequest(self._frame_size_bytes_max_own, self.heartbeat_s))
            self._enter(State.TUNE)
            self.has_more = True

    def refuse_authentication(self, code: ResponseCode) -> None:
        """Tell the client why not, and end; a shell that delays this answers later."""
        if self._awaits(State.AUTHENTICATING):
            self._queue(c.SaslAuthenticateResponse(self._request_id, code))
            self._enter(State.CLOSED)

    def opened(self, connection_properties: Mapping[str, str]) -> None:
        """Let the client in; it wants `advertised_host` and `advertised_port`, and nothing besides."""
        if self._awaits(State.OPENING):
            self._queue(c.OpenResponse(self._request_id, ResponseCode.OK, dict(connection_properties)))
            self._enter(State.OPENED)
            self.has_more = True
            own, agreed = self._frame_size_bytes_max_own, self.frame_size_bytes_max
            self._frame_size_bytes_max = min(own, agreed) if agreed else own

    def refuse_open(self, code: ResponseCode) -> None:
        """Tell the client why not, and end."""
        if self._awaits(State.OPENING):
            self._queue(c.OpenResponse(self._request_id, code))
            self._enter(State.CLOSED)

    # What the shell sends by itself

    def send(self, command: Command) -> None:
        """Queue a command or an answer; dropped when the connection has ended."""
        if not self.has_ended:
            self._queue(command)

    def request_consumer_update(self, subscription_id: int, active: bool) -> int:
        """Ask a single active consumer where to begin, or tell it to stop; gives the id that its answer has."""
        correlation_id = self._next_correlation_id()
        if len(self._consumer_updates) >= CONSUMER_UPDATES_PENDING_MAX:
            self.close(ResponseCode.PRECONDITION_FAILED, "too many consumer updates are unanswered")
        elif not self.has_ended:
            self._consumer_updates.add(correlation_id)
            self._queue(c.ConsumerUpdateRequest(correlation_id, subscription_id, active))
        return correlation_id

    def confirm(self, publisher_id: int, ids: ReadableBuffer) -> None:
        """Confirm messages by their ids, 8 bytes each one behind the other."""
        if ids and not self.has_ended:
            self._out.append(publish_confirm(publisher_id, ids, self.frame_size_bytes_max))

    def refuse_messages(self, publisher_id: int, ids: ReadableBuffer, code: ResponseCode) -> None:
        """Refuse messages by their ids, 8 bytes each one behind the other."""
        if ids and not self.has_ended:
            self._out.append(publish_error(publisher_id, ids, code, self.frame_size_bytes_max))

    def deliver_header(self, subscription_id: int, chunk_bytes: int, committed_chunk_id: int) -> bytes:
        """What the shell writes before a chunk, behind all there is to send, in the version that the client takes."""
        known = committed_chunk_id if self.takes_committed_chunk_id else None
        return deliver_header(subscription_id, chunk_bytes, known)

    # What the protocol decides

    def _queue(self, command: Command) -> None:
        self._out.append(encode(command))

    def _awaits(self, state: State) -> bool:
        """Whether an answer still counts; it may come late, but never without its question."""
        assert self.has_ended or self._state is state, f"{self._state} is not {state}"
        return self._state is state

    def _exchange_properties(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.PeerPropertiesRequest)
        self.peer_properties = command.peer_properties
        self.peer_is_javascript = command.peer_properties.get("platform") == "javascript"
        # It knows no Close of the server: it throws, and its process ends.
        self.peer_takes_close = not self.peer_is_javascript
        answer = c.PeerPropertiesResponse(command.correlation_id, ResponseCode.OK, self._own_properties)
        self._queue(answer)
        events.append(command)

    def _list_mechanisms(self, command: Command, _events: list[Event]) -> None:
        assert isinstance(command, c.SaslHandshakeRequest)
        self._queue(c.SaslHandshakeResponse(command.correlation_id, ResponseCode.OK, self._mechanisms))

    def _authenticate(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.SaslAuthenticateRequest)
        self._request_id = command.correlation_id
        self._rounds += 1
        if self._rounds > AUTHENTICATION_ROUNDS_MAX or self.mechanism not in ("", command.mechanism):
            self.refuse_authentication(ResponseCode.SASL_ERROR)
        else:
            self.mechanism = command.mechanism
            events.append(command)

    def _tune(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.TuneResponse)
        self.frame_size_bytes_max = command.frame_max
        self.heartbeat_s = command.heartbeat
        events.append(command)

    def _open(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.OpenRequest)
        self._request_id = command.correlation_id
        events.append(command)

    def _exchange_versions(self, command: Command, _events: list[Event]) -> None:
        assert isinstance(command, c.ExchangeCommandVersionsRequest)
        self.takes_committed_chunk_id = any(
            version.key == Key.DELIVER and version.min_version <= 2 <= version.max_version
            for version in command.commands
        )
        answer = c.ExchangeCommandVersionsResponse(command.correlation_id, ResponseCode.OK, SERVER_COMMANDS)
        self._queue(answer)

    def _consumer_updated(self, command: Command, events: list[Event]) -> None:
        assert isinstance(command, c.ConsumerUpdateResponse)
        # An answer to no question changes nothing, and RabbitMQ lets it pass.
        if command.correlation_id in self._consumer_updates:
            self._consumer_updates.remove(command.correlation_id)
            events.append(command)

    handlers: ClassVar[Mapping[int, Handler]] = {
        Key.PEER_PROPERTIES: _exchange_properties,
        Key.SASL_HANDSHAKE: _list_mechanisms,
        Key.SASL_AUTHENTICATE: _authenticate,
        Key.TUNE: _tune,
        ANSWER | Key.TUNE: _tune,
        Key.OPEN: _open,
        Key.CLOSE: Connection._answer_close,
        Key.HEARTBEAT: Connection._ignore,
        Key.EXCHANGE_COMMAND_VERSIONS: _exchange_versions,
        ANSWER | Key.CONSUMER_UPDATE: _consumer_updated,
    }
