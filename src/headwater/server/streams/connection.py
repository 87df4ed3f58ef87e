"""One connection of the stream door: bytes in and out, authentication, heartbeats, and when to stop reading."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import cast

from headwater import __version__
from headwater.encoding.sasl import Challenge, Failure, FailureKind
from headwater.errors import PeerError
from headwater.log.partition import Partition
from headwater.server.security.errors import UnsupportedMechanism
from headwater.server.security.identity import Identity, Peer, is_loopback
from headwater.server.security.sasl import Answer, Exchange, Success
from headwater.server.streams.consuming import Subscription
from headwater.server.streams.door import Door
from headwater.server.streams.session import Session
from headwater.streams import commands as c
from headwater.streams.commands import ResponseCode
from headwater.streams.connection import Event, Failed, State
from headwater.streams.server_connection import ServerConnection

__all__ = ["StreamProtocol"]

STEP_TIMEOUT_S = 10
CLOSE_TIMEOUT_S = 10
WRITE_BYTES_HIGH = 1 << 20
ROOM_BYTES_MIN = 4096
PROTOCOL_VERSION_TOLD = "4.0.5"
SILENT_INTERVALS_MAX = 2

logger = logging.getLogger("headwater.streams")

_PROPERTIES = {
    "cluster_name": "headwater",
    "copyright": "The Headwater authors",
    "information": "Licensed under the Apache License 2.0",
    "platform": "Python",
    "product": "RabbitMQ",
    "version": PROTOCOL_VERSION_TOLD,
    "headwater_version": __version__,
}
_CODES = {
    FailureKind.MALFORMED: ResponseCode.SASL_ERROR,
    FailureKind.LOOPBACK_ONLY: ResponseCode.SASL_AUTHENTICATION_FAILURE_LOOPBACK,
}


class StreamProtocol(asyncio.BufferedProtocol):
    """Feeds the machine of a connection, and carries out what it says."""

    def __init__(self, door: Door, failure_delay_s: float) -> None:
        self._door = door
        self._failure_delay_s = failure_delay_s
        self._transport: asyncio.Transport | None = None
        self._machine: ServerConnection
        self._peer: Peer
        self.name = ""
        self.session: Session | None = None
        self._identity: Identity | None = None
        self._exchange: Exchange | None = None
        self._last_message_sent = False
        self._kept: bytearray | None = None
        """A frame that was cut, and room for the rest of it."""
        self._kept_bytes = 0
        self._writable = True
        self._reading_paused = False
        self._write_due = False
        self._closing = False
        self.closed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._heard = True
        self._silent_intervals = 0

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all of the interface and none of the class.
        self._transport = transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername") or ("", 0)
        self.name = f"{address[0]}:{address[1]}"
        self._peer = Peer(is_loopback(str(address[0])), transport.get_extra_info("ssl_object") is not None)
        self._machine = ServerConnection(_PROPERTIES, self._door.sasl.mechanisms(self._peer))
        transport.set_write_buffer_limits(high=WRITE_BYTES_HIGH)
        self._door.connections.add(self)
        self._expect_step()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self.closed.set()
        self._door.connections.discard(self)
        for handle in (self._timer, self._heartbeat):
            if handle is not None:
                handle.cancel()
        for task in self._tasks:
            task.cancel()
        if self.session is not None:
            self.session.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._kept is None:
            return memoryview(self._door.read_buffer)
        return memoryview(self._kept)[self._kept_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        if self._kept is None:
            self._process(self._door.read_buffer, nbytes)
        else:
            kept, self._kept = self._kept, None
            self._process(kept, self._kept_bytes + nbytes)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self.session is not None:
            for subscription in list(self.session.subscriptions.values()):
                subscription.pump()

    # Bytes in

    def _process(self, buffer: bytearray, end: int) -> None:
        consumed, events = self._machine.receive(buffer, 0, end)
        for event in events:
            if self._closing:
                break
            self._handle(event, buffer)
        self._keep(buffer, consumed, end)
        self._write()

    def _keep(self, buffer: bytearray, start: int, end: int) -> None:
        """Hold what is left of the buffer until more of its frame comes."""
        rest = end - start
        if rest and not self._closing:
            room = max(self._machine.frame_bytes_missing(buffer, start, end), ROOM_BYTES_MIN)
            kept = bytearray(rest + room)
            kept[:rest] = memoryview(buffer)[start:end]
            self._kept, self._kept_bytes = kept, rest
        if self._machine.is_waiting:
            self._pause_reading()

    def _go_on(self) -> None:
        """An answer was given: take what came behind the question."""
        self._resume_reading()
        if self._kept is not None:
            kept, self._kept = self._kept, None
            self._process(kept, self._kept_bytes)
        else:
            self._write()

    def _handle(self, event: Event, buffer: bytearray) -> None:
        session = self.session
        if isinstance(event, c.Publish):
            assert session is not None
            try:
                partition = session.publishers.publish(event, buffer)
            except PeerError as error:
                self._machine.fail(error)
                return
            if partition is not None and not partition.has_room:
                self._wait_for_room(partition)
        elif isinstance(event, Failed):
            logger.info("%s: %s", self.name, event.error)
            self._expect_step(CLOSE_TIMEOUT_S)
        elif session is None:
            self._handle_handshake(event)
        elif isinstance(event, c.CloseRequest):
            logger.debug("%s: closed by the client: %s", self.name, event.closing_reason)
        elif not isinstance(event, c.CloseResponse):
            session.handle(event)

    # Handshake

    def _handle_handshake(self, event: Event) -> None:
        self._expect_step()
        if isinstance(event, c.SaslAuthenticateRequest):
            self._run(self._authenticate(event))
        elif isinstance(event, c.OpenRequest):
            self._open(event)

    async def _authenticate(self, command: c.SaslAuthenticateRequest) -> None:
        if self._last_message_sent:
            self._machine.authenticated()
            self._go_on()
            return
        try:
            if self._exchange is None:
                self._exchange = self._door.sasl.start(command.mechanism, self._peer)
            answer = await self._exchange.step(command.sasl_opaque_data)
        except UnsupportedMechanism:
            self._machine.refuse_authentication(ResponseCode.SASL_MECHANISM_NOT_SUPPORTED)
        else:
            await self._answer(answer)
        self._go_on()

    async def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Challenge):
            self._machine.challenge(answer.data)
        elif isinstance(answer, Success):
            self._identity = answer.identity
            if answer.data:
                self._last_message_sent = True
                self._machine.challenge(answer.data)
            else:
                self._machine.authenticated()
        else:
            assert isinstance(answer, Failure)
            logger.warning("%s: authentication failed: %s", self.name, answer.reason)
            await asyncio.sleep(self._failure_delay_s)
            self._machine.refuse_authentication(_CODES.get(answer.kind, ResponseCode.AUTHENTICATION_FAILURE))

    def _open(self, command: c.OpenRequest) -> None:
        identity = self._identity
        assert identity is not None
        if not self._door.access.may_enter(identity, command.virtual_host):
            self._machine.refuse_open(ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE)
            return
        self._machine.opened(
            {
                "advertised_host": self._door.advertised_host,
                "advertised_port": str(self._door.advertised_port),
            }
        )
        self.session = Session(self._door, self._machine, self, identity, command.virtual_host)
        if self._timer is not None:
            self._timer.cancel()
        self._beat()
        # What stood behind the question is taken with the next bytes, or now.
        self._door.loop.call_soon(self._go_on)

    def _expect_step(self, seconds: float = STEP_TIMEOUT_S) -> None:
        """End a connection that does not come to its next step in time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._door.loop.call_later(seconds, self.abort)

    def _run(self, work: Coroutine[None, None, None]) -> None:
        task = self._door.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Bytes out

    def answered(self) -> None:
        """There is something to send: once for all that this turn of the loop brings."""
        if not self._write_due:
            self._write_due = True
            self._door.loop.call_soon(self._write)

    def can_deliver(self) -> bool:
        return self._writable and not self._closing

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        transport = self._transport
        assert transport is not None
        last = subscription.partition.tail[-1].first_offset if subscription.partition.tail else 0
        header = self._machine.deliver_header(subscription.id, len(chunk), last)
        self._write()
        transport.writelines((header, chunk))

    def call_soon(self, subscription: Subscription) -> None:
        self._door.loop.call_soon(subscription.pump)

    def close(self, code: ResponseCode, reason: str) -> None:
        """Tell the client that the connection ends, and why."""
        self._machine.close(code, reason)
        self._expect_step(CLOSE_TIMEOUT_S)
        self._write()

    def _write(self) -> None:
        self._write_due = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.session is not None:
            self.session.publishers.write_confirms()
        data = self._machine.data_to_send()
        if data:
            transport.write(data)
        if self._machine.state is State.CLOSED and not self._closing:
            self._closing = True
            transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Heartbeats and backpressure

    def _beat(self) -> None:
        """Send a heartbeat every half interval; end a connection that was silent for two."""
        interval = self._machine.heartbeat_s
        if not interval or self._closing:
            return
        self._silent_intervals = 0 if self._heard or self._reading_paused else self._silent_intervals + 1
        self._heard = False
        if self._silent_intervals > 2 * SILENT_INTERVALS_MAX:
            logger.info("%s: no heartbeat, closed", self.name)
            self.abort()
            return
        self._machine.send(c.Heartbeat())
        self._write()
        self._heartbeat = self._door.loop.call_later(interval / 2, self._beat)

    def _wait_for_room(self, partition: Partition) -> None:
        self._pause_reading()

        def room() -> None:
            if partition.has_room or partition.read_only or self._closing:
                self._resume_reading()
            else:
                self._door.store.call_when_room(room)

        self._door.store.call_when_room(room)

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()
