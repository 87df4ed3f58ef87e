"""RabbitMQ Streams protocol: one connection of a client, with its requests, publishers and subscriptions."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

from headwater import __version__
from headwater.client.address import Address, Credentials
from headwater.client.errors import (
    ClosedByPeer,
    ConnectionLost,
    NoIdLeft,
    PeerSilent,
    PeerUnreachable,
    RequestRefused,
    RequestTimedOut,
    StreamGone,
)
from headwater.client.socket_protocol import open_transport
from headwater.client.stream_handshake import Handshake
from headwater.client.stream_protocol import StreamProtocol
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.commands import OffsetSpecification, ResponseCode
from headwater.streams.connection import FRAME_SIZE_BYTES_MAX, HEARTBEAT_S, Event, Failed, State

__all__ = ["CONNECT_TIMEOUT_S", "IDS_MAX", "REQUEST_TIMEOUT_S", "StreamConnection"]

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 5.0
IDS_MAX = 256
"""Publishers, and subscriptions, that a connection has room for: their ids have 8 bits."""

_PROPERTIES = {
    "product": "headwater",
    "version": __version__,
    "platform": f"Python {platform.python_version()}",
}

_Answer = TypeVar("_Answer", bound=c.Response)


class _StreamUser(Protocol):
    """What a connection tells publishers and subscriptions alike."""

    stream: str

    def ended(self, error: HeadwaterError) -> None:
        """The stream or the connection is gone."""


class PublisherEvents(_StreamUser, Protocol):
    """What a connection tells a publisher."""

    def confirmed(self, event: c.PublishConfirm, buffer: ReadableBuffer) -> None:
        """These ids are confirmed; the buffer is good until this returns."""

    def refused(self, event: c.PublishError) -> None:
        """These were not taken."""


class SubscriptionEvents(_StreamUser, Protocol):
    """What a connection tells a subscription."""

    def delivered(self, event: c.Deliver, buffer: ReadableBuffer) -> None:
        """A chunk came; the buffer is good until this returns."""

    async def activity_changed(self, active: bool) -> OffsetSpecification:
        """It is the active one of its group now, or is not any more; gives where to begin."""


class StreamConnection:
    """Opened by `connect`, ended by `close`; whatever ends it before is raised by all that wait on it."""

    def __init__(self, address: Address, machine: ClientConnection, request_timeout_s: float) -> None:
        self.address = address
        self.request_timeout_s = request_timeout_s
        self.on_metadata_update: Callable[[str, int], None] | None = None
        """Called with the stream that is gone, and the code; its publishers and consumers end by themselves."""
        self.error: HeadwaterError | None = None
        """Why the connection ended, once it has."""
        self._machine = machine
        self._loop = asyncio.get_running_loop()
        self._protocol = StreamProtocol(machine, self._handle, self._transport_lost, self._silent)
        self._handshake: Handshake | None = Handshake(machine)
        """Until it is over."""
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._publishers: dict[int, PublisherEvents] = {}
        self._subscriptions: dict[int, SubscriptionEvents] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport_ended = self._loop.create_future()
        self.properties: dict[str, str] = {}
        """What the server said of itself at Open: advertised_host and advertised_port."""

    # Opening and closing

    @classmethod
    async def connect(
        cls,
        address: Address | None = None,
        credentials: Credentials | None = None,
        *,
        vhost: str = "/",
        connection_name: str | None = None,
        frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX,
        heartbeat_s: int = HEARTBEAT_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> StreamConnection:
        """Connect, authenticate and open the vhost; raises a HeadwaterError that says what failed."""
        properties = dict(_PROPERTIES)
        if connection_name is not None:
            properties["connection_name"] = connection_name
        machine = ClientConnection(
            properties, vhost, frame_size_bytes_max=frame_size_bytes_max, heartbeat_s=heartbeat_s
        )
        address = address or Address()
        connection = cls(address, machine, request_timeout_s)
        try:
            async with asyncio.timeout(connect_timeout_s):
                await connection._open(address, credentials or Credentials(), vhost)
        except TimeoutError:
            error = PeerUnreachable(str(address), f"the handshake took over {connect_timeout_s:g} s")
            await connection._give_up(error)
            raise error from None
        except BaseException as error:
            await connection._give_up(error)
            raise
        return connection

    async def close(self) -> None:
        """Close in good order; without effect when it has ended."""
        if self.error is None:
            self._machine.close(ResponseCode.OK, "done")
            self._protocol.flush()
            self._end(ConnectionLost(str(self.address), "it was closed here"))
        await self._left()

    async def __aenter__(self) -> StreamConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def frame_size_bytes_max(self) -> int:
        """The largest frame that may be sent, 0 for any."""
        return self._machine.frame_size_bytes_max

    # Streams

    async def create_stream(
        self, stream: str, arguments: Mapping[str, str] | None = None, *, exists_ok: bool = False
    ) -> None:
        """Make a stream."""
        allowed = (ResponseCode.STREAM_ALREADY_EXISTS,) if exists_ok else ()
        request = self._request(c.CreateRequest, stream, dict(arguments or {}))
        await self._ask(request, c.CreateResponse, f"create stream|{stream}", allowed)

    async def delete_stream(self, stream: str) -> None:
        """Delete a stream with all that is in it."""
        request = self._request(c.DeleteRequest, stream)
        await self._ask(request, c.DeleteResponse, f"delete stream|{stream}")

    async def create_super_stream(
        self,
        name: str,
        partitions: Sequence[str],
        binding_keys: Sequence[str],
        arguments: Mapping[str, str] | None = None,
        *,
        exists_ok: bool = False,
    ) -> None:
        """Make a super stream of these partitions, with a key for each."""
        allowed = (ResponseCode.STREAM_ALREADY_EXISTS,) if exists_ok else ()
        request = self._request(
            c.CreateSuperStreamRequest, name, tuple(partitions), tuple(binding_keys), dict(arguments or {})
        )
        await self._ask(request, c.CreateSuperStreamResponse, f"create super stream|{name}", allowed)

    async def delete_super_stream(self, name: str) -> None:
        """Delete a super stream with its partitions."""
        request = self._request(c.DeleteSuperStreamRequest, name)
        await self._ask(request, c.DeleteSuperStreamResponse, f"delete super stream|{name}")

    async def metadata(self, streams: Sequence[str]) -> c.MetadataResponse:
        """Where these streams are; each has a code of its own."""
        request = self._request(c.MetadataRequest, tuple(streams))
        answer = await self._answer_to(request, "metadata")
        assert isinstance(answer, c.MetadataResponse)
        return answer

    async def stream_exists(self, stream: str) -> bool:
        """Whether there is such a stream; a super stream is none."""
        (found,) = (await self.metadata((stream,))).stream_metadata
        return found.response_code == ResponseCode.OK

    async def partitions(self, super_stream: str) -> tuple[str, ...]:
        """The streams of a super stream in their order."""
        request = self._request(c.PartitionsRequest, super_stream)
        return (await self._ask(request, c.PartitionsResponse, f"partitions of|{super_stream}")).streams

    async def route(self, super_stream: str, routing_key: str) -> tuple[str, ...]:
        """The streams that are bound with this key."""
        request = self._request(c.RouteRequest, routing_key, super_stream)
        return (await self._ask(request, c.RouteResponse, f"route in|{super_stream}")).streams

    async def stream_stats(self, stream: str) -> dict[str, int]:
        """Figures of a stream, among them first_chunk_id and committed_chunk_id."""
        request = self._request(c.StreamStatsRequest, stream)
        return (await self._ask(request, c.StreamStatsResponse, f"stats of|{stream}")).stats

    async def resolve_offset(self, stream: str, offset: OffsetSpecification) -> int:
        """The offset that a specification means now."""
        request = self._request(c.ResolveOffsetSpecRequest, stream, offset)
        answer = await self._ask(request, c.ResolveOffsetSpecResponse, f"resolve an offset in|{stream}")
        return answer.offset_specification.value

    def store_offset(self, reference: str, stream: str, offset: int) -> None:
        """Keep how far a named consumer has come; the server answers nothing."""
        self._send(c.StoreOffset(reference, stream, offset))

    async def stored_offset(self, reference: str, stream: str) -> int | None:
        """What was stored last under this name, if anything."""
        request = self._request(c.QueryOffsetRequest, reference, stream)
        allowed = (ResponseCode.NO_OFFSET,)
        answer = await self._ask(request, c.QueryOffsetResponse, f"query offset of|{stream}", allowed)
        return None if answer.response_code == ResponseCode.NO_OFFSET else answer.offset

    async def publisher_sequence(self, reference: str, stream: str) -> int:
        """The highest publishing id stored under this name, 0 if there is none."""
        request = self._request(c.QueryPublisherSequenceRequest, reference, stream)
        subject = f"query publisher sequence of|{stream}"
        return (await self._ask(request, c.QueryPublisherSequenceResponse, subject)).sequence

    # Publishers and subscriptions

    async def declare_publisher(self, events: PublisherEvents, reference: str | None) -> int:
        """Make a publisher; gives its id, under which `events` is told what becomes of its messages."""
        id_ = _take_id(self._publishers, events, "publishers")
        request = self._request(c.DeclarePublisherRequest, id_, reference or "", events.stream)
        try:
            await self._ask(request, c.DeclarePublisherResponse, f"publish to|{events.stream}")
        except BaseException:
            self._publishers.pop(id_, None)
            raise
        return id_

    async def delete_publisher(self, id_: int) -> None:
        """Give the id back."""
        if self.error is None and id_ in self._publishers:
            request = self._request(c.DeletePublisherRequest, id_)
            await self._ask(request, c.DeletePublisherResponse, f"delete publisher|{id_}")
        self._publishers.pop(id_, None)

    async def publish_frame(self, frame: ReadableBuffer) -> None:
        """Send a Publish frame; waits before while the socket takes no more."""
        self._check_alive()
        await self._protocol.drained()
        self._check_alive()
        self._protocol.write_frame(frame)

    async def subscribe(
        self,
        events: SubscriptionEvents,
        offset: OffsetSpecification,
        credit: int,
        properties: Mapping[str, str],
    ) -> int:
        """Make a subscription; gives its id. Chunks may come before this returns."""
        id_ = _take_id(self._subscriptions, events, "subscriptions")
        request = self._request(c.SubscribeRequest, id_, events.stream, offset, credit, dict(properties))
        try:
            await self._ask(request, c.SubscribeResponse, f"subscribe to|{events.stream}")
        except BaseException:
            self._subscriptions.pop(id_, None)
            raise
        return id_

    def give_credit(self, subscription_id: int, credit: int) -> None:
        """Let this many chunks more come."""
        if self.error is None:
            self._send(c.Credit(subscription_id, credit))

    async def unsubscribe(self, id_: int) -> None:
        """End a subscription."""
        if self.error is None and id_ in self._subscriptions:
            request = self._request(c.UnsubscribeRequest, id_)
            await self._ask(request, c.UnsubscribeResponse, f"unsubscribe|{id_}")
        self._subscriptions.pop(id_, None)

    def fail(self, error: HeadwaterError) -> None:
        """End the connection because of what the server did."""
        self._machine.close(ResponseCode.UNKNOWN_FRAME, str(error))
        self._protocol.flush()
        self._end(error)

    # Requests

    def _request(self, kind: Callable[..., c.Request], *fields: object) -> c.Request:
        self._check_alive()
        return kind(self._machine.next_correlation_id(), *fields)

    async def _ask(
        self,
        request: c.Request,
        kind: type[_Answer],
        what: str,
        allowed: Sequence[ResponseCode] = (),
    ) -> _Answer:
        """The answer to a request; `what` names action and subject, with a | between them."""
        action, _, subject = what.partition("|")
        answer = await self._answer_to(request, f"{action} {subject!r}")
        assert isinstance(answer, kind)
        if answer.response_code != ResponseCode.OK and answer.response_code not in allowed:
            raise RequestRefused(action, subject, answer.response_code)
        return answer

    async def _answer_to(self, request: c.Request, what: str) -> c.Command:
        self._send(request)
        answer: asyncio.Future[c.Command] = self._loop.create_future()
        self._answers[request.correlation_id] = answer
        try:
            async with asyncio.timeout(self.request_timeout_s):
                return await answer
        except TimeoutError:
            raise RequestTimedOut(what, self.request_timeout_s) from None
        finally:
            self._answers.pop(request.correlation_id, None)

    def _send(self, command: c.Command) -> None:
        self._check_alive()
        self._machine.send(command)
        self._protocol.flush_soon()

    def _check_alive(self) -> None:
        if self.error is not None:
            # Raised many times, it would gather tracebacks.
            raise self.error.with_traceback(None)

    # Handshake

    async def _open(self, address: Address, credentials: Credentials, vhost: str) -> None:
        assert self._handshake is not None
        await open_transport(self._protocol, address)
        self.properties = await self._handshake.run(self._protocol, credentials, vhost)
        self._handshake = None
        self._protocol.beat()

    async def _give_up(self, error: BaseException) -> None:
        self._end(
            error if isinstance(error, HeadwaterError) else ConnectionLost(str(self.address), "given up")
        )
        self._protocol.abort()
        await self._left()

    async def _left(self) -> None:
        """Wait until the socket is given back, so that nothing of a closed connection is left in the loop."""
        if self._protocol.is_connected:
            await asyncio.wait([self._transport_ended], timeout=CLOSE_TIMEOUT_S)
            self._protocol.abort()

    # Events

    def _handle(self, event: Event, buffer: ReadableBuffer) -> None:
        if isinstance(event, c.PublishConfirm):
            publisher = self._publishers.get(event.publisher_id)
            if publisher is not None:
                publisher.confirmed(event, buffer)
        elif isinstance(event, c.Deliver):
            subscription = self._subscriptions.get(event.subscription_id)
            if subscription is not None:
                subscription.delivered(event, buffer)
        elif isinstance(event, Failed):
            self._end(event.error)
        elif isinstance(event, c.CloseRequest):
            self._end(ClosedByPeer(str(self.address), event.closing_code, event.closing_reason or ""))
        elif self._handshake is not None:
            self._handshake.took(event)
        else:
            self._handle_rare(event)

    def _handle_rare(self, event: Event) -> None:
        if isinstance(event, c.ConsumerUpdateRequest):
            self._run(self._update_consumer(event))
        elif isinstance(event, c.PublishError):
            publisher = self._publishers.get(event.publisher_id)
            if publisher is not None:
                publisher.refused(event)
        elif isinstance(event, c.MetadataUpdate):
            self._stream_gone(event)
        elif isinstance(event, c.Response | c.MetadataResponse):
            answer = self._answers.get(event.correlation_id)
            if answer is not None and not answer.done():
                answer.set_result(event)

    async def _update_consumer(self, event: c.ConsumerUpdateRequest) -> None:
        subscription = self._subscriptions.get(event.subscription_id)
        offset = OffsetSpecification(c.OffsetType.NONE)
        code = ResponseCode.OK
        if subscription is None:
            code = ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST
        else:
            try:
                offset = await subscription.activity_changed(event.active)
            except HeadwaterError as error:
                self._subscriptions.pop(event.subscription_id, None)
                subscription.ended(error)
                code = ResponseCode.INTERNAL_ERROR
        if self.error is None:
            self._send(c.ConsumerUpdateResponse(event.correlation_id, code, offset))

    def _stream_gone(self, event: c.MetadataUpdate) -> None:
        users: dict[int, Any]
        for users in (self._publishers, self._subscriptions):
            # The server has dropped these already.
            for id_, user in list(users.items()):
                if user.stream == event.stream:
                    del users[id_]
                    user.ended(StreamGone(event.stream))
        if self.on_metadata_update is not None:
            self.on_metadata_update(event.stream, event.code)

    def _silent(self, seconds: float) -> None:
        self._end(PeerSilent(str(self.address), seconds))

    def _transport_lost(self, error: Exception | None) -> None:
        if not self._transport_ended.done():
            self._transport_ended.set_result(None)
        self._end(ConnectionLost(str(self.address), str(error) if error else "the server ended it"))

    def _end(self, error: HeadwaterError) -> None:
        """Whoever waits on this connection is told why it ended; the first reason counts."""
        if self.error is not None:
            return
        self.error = error
        if self._handshake is not None:
            self._handshake.took(error)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
        users: list[_StreamUser] = [*self._publishers.values(), *self._subscriptions.values()]
        self._publishers.clear()
        self._subscriptions.clear()
        for user in users:
            user.ended(error)
        for task in self._tasks:
            task.cancel()
        self._leave()

    def _leave(self) -> None:
        """Give the socket back: at once, or when the server has answered our Close, or not in time."""
        if self._machine.state is State.CLOSING:
            self._loop.call_later(CLOSE_TIMEOUT_S, self._protocol.abort)
        elif self._machine.state is not State.CLOSED:
            self._protocol.abort()

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _take_id(taken: dict[int, Any], owner: object, what: str) -> int:
    for id_ in range(IDS_MAX):
        if id_ not in taken:
            taken[id_] = owner
            return id_
    raise NoIdLeft(what, IDS_MAX)
