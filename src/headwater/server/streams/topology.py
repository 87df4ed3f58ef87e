"""RabbitMQ Streams protocol, streams and super streams of a vhost: what is there, and making and deleting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.errors import InvalidSettings, LogDiffers, LogExists, StorageError, UnknownLog
from headwater.log.log import Log, LogKind, PartitionDefinition
from headwater.log.partition import Partition
from headwater.log.store import Store
from headwater.server.management.logs import make_log
from headwater.server.streams.arguments import known_arguments, log_settings
from headwater.streams.commands import ResponseCode

__all__ = ["Topology"]


class Topology:
    """Streams by name; the answers are response codes of the protocol."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def stream(self, vhost: str, name: str) -> Partition | None:
        """The partition behind a stream of this name."""
        return self._store.stream(name, vhost)

    def make(
        self,
        vhost: str,
        name: str,
        kind: LogKind,
        partitions: Sequence[PartitionDefinition],
        arguments: Mapping[str, str],
    ) -> None:
        """Make a log; raises `InvalidSettings`, `LogExists`, `LogDiffers` if the other one has other settings."""
        settings, kept = log_settings(arguments), known_arguments(arguments)
        make_log(self._store, vhost, name, kind, partitions, settings, kept)

    def create(self, vhost: str, name: str, arguments: Mapping[str, str]) -> ResponseCode:
        """Make a stream."""
        return self._create(vhost, name, "stream", (), arguments)

    def create_super_stream(
        self,
        vhost: str,
        name: str,
        partitions: Sequence[str],
        keys: Sequence[str],
        arguments: Mapping[str, str],
    ) -> ResponseCode:
        """Make a super stream of these partitions, each bound by a key."""
        if len(partitions) != len(keys) or not partitions:
            return ResponseCode.PRECONDITION_FAILED
        definitions = [PartitionDefinition(*pair) for pair in zip(partitions, keys, strict=True)]
        return self._create(vhost, name, "super_stream", definitions, arguments)

    def delete(self, vhost: str, name: str) -> ResponseCode:
        """Delete a stream; a partition of a super stream is not deleted alone."""
        log = self._store.logs.get((vhost, name))
        if log is not None and log.definition.kind == "stream":
            return self._delete(vhost, name)
        if self.stream(vhost, name) is not None:
            return ResponseCode.PRECONDITION_FAILED
        return ResponseCode.STREAM_DOES_NOT_EXIST

    def delete_super_stream(self, vhost: str, name: str) -> ResponseCode:
        """Delete a super stream with all its partitions."""
        if self.super_stream(vhost, name) is None:
            return ResponseCode.STREAM_DOES_NOT_EXIST
        return self._delete(vhost, name)

    def super_stream(self, vhost: str, name: str) -> Log | None:
        """The super stream of this name."""
        log = self._store.logs.get((vhost, name))
        return log if log is not None and log.definition.kind == "super_stream" else None

    def route(self, vhost: str, name: str, key: str) -> tuple[str, ...] | None:
        """The partitions of a super stream that are bound by a key; None if there is no such super stream."""
        log = self.super_stream(vhost, name)
        if log is None:
            return None
        return tuple(partition.name for partition in log.definition.partitions if partition.key == key)

    def partition_index(self, vhost: str, super_stream: str, stream: str) -> int | None:
        """The number of a partition in its super stream; None if it is none of it."""
        log = self.super_stream(vhost, super_stream)
        names = [] if log is None else [partition.name for partition in log.definition.partitions]
        return names.index(stream) if stream in names else None

    def _create(
        self,
        vhost: str,
        name: str,
        kind: LogKind,
        partitions: Sequence[PartitionDefinition],
        arguments: Mapping[str, str],
    ) -> ResponseCode:
        try:
            self.make(vhost, name, kind, partitions, arguments)
        except (InvalidSettings, LogDiffers):
            return ResponseCode.PRECONDITION_FAILED
        except LogExists:
            return ResponseCode.STREAM_ALREADY_EXISTS
        except StorageError:
            return ResponseCode.INTERNAL_ERROR
        return ResponseCode.OK

    def _delete(self, vhost: str, name: str) -> ResponseCode:
        try:
            self._store.delete_log(name, vhost)
        except UnknownLog:
            return ResponseCode.STREAM_DOES_NOT_EXIST
        except StorageError:
            return ResponseCode.INTERNAL_ERROR
        return ResponseCode.OK
