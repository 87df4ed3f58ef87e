"""RabbitMQ Streams protocol, Commands: what each command of an opened connection does to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from headwater.engine.single_active import GroupId
from headwater.errors import InvalidCloudEvent, StorageError
from headwater.log.file_span import FileSpan
from headwater.log.log import PARTITIONS_MAX
from headwater.log.partition import Partition, PartitionState
from headwater.log.reader import last_chunk_offset
from headwater.server.audit import note_change
from headwater.server.management.logs import is_valid_name
from headwater.server.security.identity import Identity
from headwater.server.streams.consuming import CREDIT_MAX, Filter, Subscription, start_offset
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.publishing import Publishers
from headwater.streams import commands as c
from headwater.streams.commands import NO_LEADER, OffsetType, ResponseCode
from headwater.streams.server_connection import ServerConnection

__all__ = ["Outlet", "Session"]

REFERENCE_BYTES_MAX = 255
FILTER_VALUES_MAX = 255
METADATA_STREAMS_MAX = 10_000
FIRST_DELIVERY_DELAY_S = 0.05

_FROM_THE_END = frozenset({OffsetType.LAST, OffsetType.NEXT, OffsetType.TIMESTAMP})
OK = ResponseCode.OK


class Outlet(Protocol):
    """What a session asks of its connection."""

    name: str
    """From where to where."""

    def can_deliver(self) -> bool:
        """Whether more may be queued for the socket."""

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        """Queue one chunk behind all answers."""

    def can_send_files(self) -> bool:
        """Whether the next chunk may go from its file to the socket."""

    def deliver_span(self, subscription: Subscription, span: FileSpan) -> None:
        """Send one chunk from its file."""

    def call_soon(self, subscription: Subscription) -> None:
        """Go on with a subscription in the next turn of the loop."""

    def answered(self) -> None:
        """There is something to send."""

    def close(self, code: ResponseCode, reason: str) -> None:
        """Tell the client that the connection ends, and why."""


class _Update(NamedTuple):
    """What a subscription was told, and until when it may answer."""

    subscription_id: int
    active: bool
    timeout: asyncio.TimerHandle


class Session:
    """An opened connection: who it is, its publishers and its subscriptions."""

    def __init__(
        self,
        door: Door,
        machine: ServerConnection,
        outlet: Outlet,
        identity: Identity,
        vhost: str,
        advertised: Endpoint,
    ) -> None:
        self.identity = identity
        self.vhost = vhost
        self._door = door
        self._machine = machine
        self._outlet = outlet
        self._advertised = advertised
        self.publishers = Publishers(machine, self)
        self.subscriptions: dict[int, Subscription] = {}
        self._groups: dict[int, GroupId] = {}
        self._is_closed = False
        self._updates: dict[int, _Update] = {}
        """ConsumerUpdates that were not answered yet, by correlation id."""
        self._told: dict[int, int] = {}
        """The correlation id of what a subscription was told last: an answer to anything before changes nothing."""
        self._commands: dict[type[c.Command], Callable[[Any], None]] = {
            c.DeclarePublisherRequest: self._declare_publisher,
            c.DeletePublisherRequest: self._delete_publisher,
            c.QueryPublisherSequenceRequest: self._query_publisher_sequence,
            c.SubscribeRequest: self._subscribe,
            c.UnsubscribeRequest: self._unsubscribe,
            c.Credit: self._credit,
            c.StoreOffset: self._store_offset,
            c.QueryOffsetRequest: self._query_offset,
            c.ConsumerUpdateResponse: self._consumer_updated,
            c.ResolveOffsetSpecRequest: self._resolve_offset,
            c.CreateRequest: self._create,
            c.DeleteRequest: self._delete,
            c.CreateSuperStreamRequest: self._create_super_stream,
            c.DeleteSuperStreamRequest: self._delete_super_stream,
            c.MetadataRequest: self._metadata,
            c.PartitionsRequest: self._partitions,
            c.RouteRequest: self._route,
            c.StreamStatsRequest: self._stream_stats,
        }

    def handle(self, command: c.Command) -> None:
        """Carry out one command and queue its answer."""
        self._commands[type(command)](command)

    def close(self) -> None:
        """The connection is gone, or about to be: nothing more is delivered."""
        self._is_closed = True
        for id_ in list(self.subscriptions):
            self._end_subscription(id_)

    def pump(self) -> None:
        """The socket has room again."""
        for subscription in list(self.subscriptions.values()):
            subscription.pump()

    def drop_stream(self, partition: Partition) -> None:
        """The stream is no longer for this client: its publishers and subscriptions are gone, and it is told once."""
        concerned = self.publishers.drop(partition)
        for id_, subscription in list(self.subscriptions.items()):
            if subscription.partition is partition:
                self._end_subscription(id_)
                concerned = True
        if concerned:
            self._machine.send(c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, partition.name))
            self._outlet.answered()

    def set_active(self, subscription_id: int, active: bool) -> None:
        """Tell a single active consumer what it is; it reads only after its answer."""
        subscription = self.subscriptions.get(subscription_id)
        if subscription is None:
            return
        subscription.is_paused = True
        correlation_id = self._machine.request_consumer_update(subscription_id, active)
        seconds = self._door.limits.consumer_update_timeout_s
        timeout = self._door.loop.call_later(seconds, self._update_timed_out, seconds)
        self._updates[correlation_id] = _Update(subscription_id, active, timeout)
        self._told[subscription_id] = correlation_id
        self._outlet.answered()

    def is_in_group(self, subscription_id: int) -> bool:
        """Whether a subscription is a single active consumer, active or not."""
        return subscription_id in self._groups

    # Of publishers and subscriptions

    def answered(self) -> None:
        self._outlet.answered()

    def may_publish(self, partition: Partition) -> bool:
        return self._door.access.may_write(self.identity, self.vhost, partition.name)

    def publishing_failed(self, partition: Partition, error: StorageError) -> None:
        self._door.note_failure(partition, error)

    def event_refused(self, partition: Partition, error: InvalidCloudEvent) -> None:
        self._door.note_refused_event(partition, error)

    def may_read(self, subscription: Subscription) -> bool:
        partition = subscription.partition
        if self._door.access.may_read(self.identity, self.vhost, partition.name):
            return True
        self.drop_stream(partition)
        return False

    def can_deliver(self) -> bool:
        return self._outlet.can_deliver()

    def deliver(self, subscription: Subscription, chunk: memoryview) -> None:
        self._outlet.deliver(subscription, chunk)

    def can_send_files(self) -> bool:
        return self._outlet.can_send_files()

    def deliver_span(self, subscription: Subscription, span: FileSpan) -> None:
        self._outlet.deliver_span(subscription, span)

    def call_soon(self, subscription: Subscription) -> None:
        self._outlet.call_soon(subscription)

    def reading_failed(self, subscription: Subscription, error: StorageError) -> None:
        self._door.note_failure(subscription.partition, error)
        self.drop_stream(subscription.partition)

    # Publishing

    def _declare_publisher(self, command: c.DeclarePublisherRequest) -> None:
        code, partition = self._writable(command.stream)
        if partition is not None:
            code = self.publishers.declare(command.publisher_id, partition, command.publisher_reference)
        self._machine.send(c.DeclarePublisherResponse(command.correlation_id, code))

    def _delete_publisher(self, command: c.DeletePublisherRequest) -> None:
        code = self.publishers.delete(command.publisher_id)
        self._machine.send(c.DeletePublisherResponse(command.correlation_id, code))

    def _query_publisher_sequence(self, command: c.QueryPublisherSequenceRequest) -> None:
        code, partition = self._writable(command.stream)
        if _is_too_long(command.publisher_reference):
            code, partition = ResponseCode.PRECONDITION_FAILED, None
        if partition is None:
            self._machine.send(c.QueryPublisherSequenceResponse(command.correlation_id, code))
            return
        reference, known = command.publisher_reference.encode(), partition

        def answer(_error: StorageError | None) -> None:
            sequence = known.sequence(reference) or 0
            self._machine.send(c.QueryPublisherSequenceResponse(command.correlation_id, OK, sequence))
            self._outlet.answered()

        # What the client has sent before it asks counts, as soon as it is known whether it was stored.
        partition.when_settled(answer)

    # Consuming

    def _subscribe(self, command: c.SubscribeRequest) -> None:
        self._when_settled(command.stream, command.offset_specification, lambda: self._subscribe_now(command))

    def _subscribe_now(self, command: c.SubscribeRequest) -> None:
        code, partition = self._readable(command.stream)
        offset = 0
        if partition is not None:
            code, offset = self._check_subscribe(command, partition)
        self._machine.send(c.SubscribeResponse(command.correlation_id, code))
        if code is not OK or partition is None:
            return
        properties = command.properties
        subscription = Subscription(
            command.subscription_id,
            partition,
            offset,
            min(command.credit, CREDIT_MAX),
            Filter.of(properties),
            self,
            properties,
            splits_at_sub_batches=self._machine.peer_is_javascript,
        )
        self.subscriptions[command.subscription_id] = subscription
        if _is_single(properties):
            self._join_group(subscription, properties)
        elif self._machine.peer_is_javascript:
            # Its handlers use the consumer, which they get only when a turn of its loop ends with our answer.
            self._door.loop.call_later(FIRST_DELIVERY_DELAY_S, subscription.pump)
        else:
            self._outlet.call_soon(subscription)

    def _check_subscribe(self, command: c.SubscribeRequest, partition: Partition) -> tuple[ResponseCode, int]:
        """Whether this subscription can be, and the offset at which it begins."""
        properties = command.properties
        name = properties.get("name", "")
        if command.subscription_id in self.subscriptions:
            return ResponseCode.SUBSCRIPTION_ID_ALREADY_EXISTS, 0
        if _is_too_long(name) or (_is_single(properties) and not name):
            return ResponseCode.PRECONDITION_FAILED, 0
        if sum(each.startswith("filter.") for each in properties) > FILTER_VALUES_MAX:
            return ResponseCode.PRECONDITION_FAILED, 0
        code, offset = self._start_offset(partition, command.offset_specification)
        if partition.state is PartitionState.DAMAGED and offset >= partition.committed_offset:
            return ResponseCode.STREAM_NOT_AVAILABLE, 0
        return code, offset

    def _start_offset(
        self, partition: Partition, specification: c.OffsetSpecification
    ) -> tuple[ResponseCode, int]:
        try:
            return OK, start_offset(partition, specification)
        except StorageError as error:
            self._door.note_failure(partition, error)
            return ResponseCode.STREAM_NOT_AVAILABLE, 0

    def _join_group(self, subscription: Subscription, properties: dict[str, str]) -> None:
        group = GroupId(self.vhost, subscription.partition.name, properties["name"])
        super_stream = properties.get("super-stream")
        index = None
        if super_stream:
            index = self._door.topology.partition_index(self.vhost, super_stream, subscription.partition.name)
        self._groups[subscription.id] = group
        subscription.is_paused = True
        self._door.join_group(group, self, subscription.id, index)

    def _consumer_updated(self, command: c.ConsumerUpdateResponse) -> None:
        id_, active, timeout = self._updates.pop(command.correlation_id)
        timeout.cancel()
        if self._told.get(id_) != command.correlation_id:
            return
        if not active:
            self._door.stepped_down(self._groups[id_], self, id_)
            return
        subscription = self.subscriptions[id_]
        if command.offset_specification.type is not OffsetType.NONE:
            code, offset = self._start_offset(subscription.partition, command.offset_specification)
            if code is not OK:
                self.drop_stream(subscription.partition)
                return
            subscription.go_to(offset)
        subscription.is_paused = False
        self._outlet.call_soon(subscription)

    def _update_timed_out(self, seconds: float) -> None:
        reason = f"no answer to a ConsumerUpdate within {seconds:g} s"
        self._outlet.close(ResponseCode.PRECONDITION_FAILED, reason)

    def _unsubscribe(self, command: c.UnsubscribeRequest) -> None:
        code = OK
        if command.subscription_id in self.subscriptions:
            self._end_subscription(command.subscription_id)
        else:
            code = ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST
        self._machine.send(c.UnsubscribeResponse(command.correlation_id, code))

    def _end_subscription(self, id_: int) -> None:
        self.subscriptions.pop(id_).close()
        for update in self._updates.values():
            if update.subscription_id == id_:
                update.timeout.cancel()  # its answer may come all the same
        self._told.pop(id_, None)
        group = self._groups.pop(id_, None)
        if group is not None:
            self._door.leave_group(group, self, id_)

    def _credit(self, command: c.Credit) -> None:
        subscription = self.subscriptions.get(command.subscription_id)
        if subscription is None:
            code = ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST
            self._machine.send(c.CreditResponse(code, command.subscription_id))
        else:
            subscription.add_credit(command.credit)

    def _store_offset(self, command: c.StoreOffset) -> None:
        # There is no answer: what cannot be stored is dropped.
        _, partition = self._readable(command.stream)
        if partition is None or not command.reference or _is_too_long(command.reference):
            return
        try:
            partition.store_offset(command.reference.encode(), command.offset)
        except StorageError as error:
            self._door.note_failure(partition, error)

    def _query_offset(self, command: c.QueryOffsetRequest) -> None:
        code, partition = self._readable(command.stream)
        if _is_too_long(command.reference):
            code, partition = ResponseCode.PRECONDITION_FAILED, None
        if partition is None:
            self._machine.send(c.QueryOffsetResponse(command.correlation_id, code))
            return
        reference, known = command.reference.encode(), partition

        def answer(_error: StorageError | None) -> None:
            offset = known.stored_offset(reference)
            code = ResponseCode.NO_OFFSET if offset is None else OK
            self._machine.send(c.QueryOffsetResponse(command.correlation_id, code, offset or 0))
            self._outlet.answered()

        # Who goes on behind an offset must find it again after a crash, so it is told when it is on disk.
        partition.when_settled(answer)

    def _resolve_offset(self, command: c.ResolveOffsetSpecRequest) -> None:
        self._when_settled(command.stream, command.offset_specification, lambda: self._resolve_now(command))

    def _resolve_now(self, command: c.ResolveOffsetSpecRequest) -> None:
        code, partition = self._readable(command.stream)
        offset = 0
        if partition is not None:
            code, offset = self._start_offset(partition, command.offset_specification)
            offset = max(offset, partition.first_offset) if code is OK else 0
        resolved = c.OffsetSpecification(OffsetType.OFFSET, offset)
        self._machine.send(c.ResolveOffsetSpecResponse(command.correlation_id, code, resolved))

    # Streams and super streams

    def _create(self, command: c.CreateRequest) -> None:
        code = ResponseCode.ACCESS_REFUSED
        if not is_valid_name(command.stream):
            code = ResponseCode.PRECONDITION_FAILED
        elif self._may_configure(command.stream):
            code = self._door.topology.create(self.vhost, command.stream, command.arguments)
        self._machine.send(c.CreateResponse(command.correlation_id, code))
        self._note(f"create the stream {command.stream!r}", code)

    def _delete(self, command: c.DeleteRequest) -> None:
        code = ResponseCode.ACCESS_REFUSED
        gone: list[Partition] = []
        if self._may_configure(command.stream):
            gone = self._door.partitions_of(self.vhost, command.stream)
            code = self._door.topology.delete(self.vhost, command.stream)
        self._machine.send(c.DeleteResponse(command.correlation_id, code))
        self._note(f"delete the stream {command.stream!r}", code)
        if code is OK:
            self._door.streams_deleted(self.vhost, gone)

    def _create_super_stream(self, command: c.CreateSuperStreamRequest) -> None:
        code = ResponseCode.ACCESS_REFUSED
        names = (command.name, *command.partitions)
        # The number first: to hold a frame full of names against an expression takes a while.
        if len(names) > 1 + PARTITIONS_MAX or not all(map(is_valid_name, names)):
            code = ResponseCode.PRECONDITION_FAILED
        elif all(map(self._may_configure, names)):
            code = self._door.topology.create_super_stream(
                self.vhost, command.name, command.partitions, command.binding_keys, command.arguments
            )
        self._machine.send(c.CreateSuperStreamResponse(command.correlation_id, code))
        self._note(f"create the super stream {command.name!r}", code)

    def _delete_super_stream(self, command: c.DeleteSuperStreamRequest) -> None:
        code = ResponseCode.ACCESS_REFUSED
        gone: list[Partition] = []
        if self._may_configure(command.name):
            gone = self._door.partitions_of(self.vhost, command.name)
            code = self._door.topology.delete_super_stream(self.vhost, command.name)
        self._machine.send(c.DeleteSuperStreamResponse(command.correlation_id, code))
        self._note(f"delete the super stream {command.name!r}", code)
        if code is OK:
            self._door.streams_deleted(self.vhost, gone)

    def _note(self, action: str, code: ResponseCode) -> None:
        action = f"{action} in {self.vhost!r}"
        note_change(self.identity.user, self._outlet.name, "stream", action, code.name.lower())

    def _metadata(self, command: c.MetadataRequest) -> None:
        if len(command.streams) > METADATA_STREAMS_MAX:
            reason = f"more than {METADATA_STREAMS_MAX} streams in one Metadata; ask for fewer at a time"
            self._outlet.close(ResponseCode.PRECONDITION_FAILED, reason)
            return
        broker = c.Broker(0, self._advertised.host, self._advertised.port)
        found = []
        for name in command.streams:
            exists = self._door.topology.stream(self.vhost, name) is not None
            code = OK if exists else ResponseCode.STREAM_DOES_NOT_EXIST
            found.append(c.StreamMetadata(name, code, 0 if exists else NO_LEADER))
        self._machine.send(c.MetadataResponse(command.correlation_id, (broker,), tuple(found)))

    def _partitions(self, command: c.PartitionsRequest) -> None:
        log = self._door.topology.super_stream(self.vhost, command.super_stream)
        names = () if log is None else tuple(partition.name for partition in log.partitions)
        code = ResponseCode.STREAM_DOES_NOT_EXIST if log is None else OK
        self._machine.send(c.PartitionsResponse(command.correlation_id, code, names))

    def _route(self, command: c.RouteRequest) -> None:
        names = self._door.topology.route(self.vhost, command.super_stream, command.routing_key)
        code = ResponseCode.STREAM_DOES_NOT_EXIST if names is None else OK
        self._machine.send(c.RouteResponse(command.correlation_id, code, names or ()))

    def _stream_stats(self, command: c.StreamStatsRequest) -> None:
        code, partition = self._readable(command.stream)
        stats: dict[str, int] = {}
        if partition is not None:
            try:
                stats = _stats(partition)
            except StorageError as error:
                self._door.note_failure(partition, error)
                code = ResponseCode.STREAM_NOT_AVAILABLE
        self._machine.send(c.StreamStatsResponse(command.correlation_id, code, stats))

    def _when_settled(
        self, stream: str, specification: c.OffsetSpecification, answer: Callable[[], None]
    ) -> None:
        """Answer what depends on the end of a stream when it is known what became of all that came before the question:
        a message on its way to the disk is neither the last one nor behind the end yet."""
        partition = self._door.topology.stream(self.vhost, stream)
        if partition is None or specification.type not in _FROM_THE_END:
            answer()
            return

        def settled(_error: StorageError | None) -> None:
            if not self._is_closed:
                answer()
                self._outlet.answered()

        partition.when_settled(settled)

    # Who may

    def _writable(self, name: str) -> tuple[ResponseCode, Partition | None]:
        return self._permitted(name, self._door.access.may_write)

    def _readable(self, name: str) -> tuple[ResponseCode, Partition | None]:
        return self._permitted(name, self._door.access.may_read)

    def _permitted(
        self, name: str, may: Callable[[Identity, str, str], bool]
    ) -> tuple[ResponseCode, Partition | None]:
        if not may(self.identity, self.vhost, name):
            return ResponseCode.ACCESS_REFUSED, None
        partition = self._door.topology.stream(self.vhost, name)
        return (ResponseCode.STREAM_DOES_NOT_EXIST, None) if partition is None else (OK, partition)

    def _may_configure(self, name: str) -> bool:
        return self._door.access.may_configure(self.identity, self.vhost, name)


def _is_too_long(reference: str) -> bool:
    return len(reference.encode()) > REFERENCE_BYTES_MAX


def _is_single(properties: dict[str, str]) -> bool:
    """Whether a subscription is a single active consumer; RabbitMQ knows "true" alone, Python's clients say "True"."""
    return properties.get("single-active-consumer", "").lower() == "true"


def _stats(partition: Partition) -> dict[str, int]:
    last = last_chunk_offset(partition)
    return {
        "first_chunk_id": -1 if last is None else partition.first_offset,
        "committed_chunk_id": -1 if last is None else last,
        "last_chunk_id": -1 if last is None else last,
        "committed_offset": partition.committed_offset - 1,
    }
