"""Super streams: which streams they are, and keys to partitions as all stream clients do it."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client.errors import RequestRefused
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_publisher import UNCONFIRMED_MESSAGES_MAX, StreamPublisher
from headwater.encoding.murmur3 import partition_of
from headwater.streams.commands import ResponseCode

__all__ = ["PartitionedPublisher", "partition_names", "streams_of"]


def partition_names(name: str, count: int) -> tuple[list[str], list[str]]:
    """Streams and binding keys of a new super stream, named as other tools name them."""
    keys = [str(index) for index in range(count)]
    return [f"{name}-{key}" for key in keys], keys


async def streams_of(connection: StreamConnection, name: str) -> list[str]:
    """The partitions of a super stream, or the stream of this name alone; raises RequestRefused if there is neither."""
    try:
        return list(await connection.partitions(name))
    except RequestRefused as error:
        if error.code != ResponseCode.STREAM_DOES_NOT_EXIST:
            raise
    if not await connection.stream_exists(name):
        raise RequestRefused("find stream", name, ResponseCode.STREAM_DOES_NOT_EXIST)
    return [name]


class PartitionedPublisher:
    """A publisher for each partition; a message goes where its key belongs."""

    def __init__(self, publishers: list[StreamPublisher]) -> None:
        self.publishers = publishers

    @classmethod
    async def open(
        cls,
        connection: StreamConnection,
        streams: Sequence[str],
        *,
        name: str | None = None,
        unconfirmed_max: int = UNCONFIRMED_MESSAGES_MAX,
    ) -> PartitionedPublisher:
        """Declare a publisher on each of these."""
        publishers = [
            await StreamPublisher.open(connection, stream, name=name, unconfirmed_max=unconfirmed_max)
            for stream in streams
        ]
        return cls(publishers)

    async def publish(
        self,
        records: list[bytes],
        keys: Sequence[bytes],
        *,
        ids: list[int] | None = None,
        as_data: bool = False,
    ) -> None:
        """Send each record to the partition of its key; records of one key keep their order."""
        for publisher, places in self.route(keys):
            chosen = [records[place] for place in places]
            own_ids = None if ids is None else [ids[place] for place in places]
            await publisher.publish(chosen, ids=own_ids, as_data=as_data)

    def route(self, keys: Sequence[bytes]) -> list[tuple[StreamPublisher, list[int]]]:
        """The places of these keys by the publisher that they belong to, in their order."""
        count = len(self.publishers)
        places: list[list[int]] = [[] for _ in range(count)]
        for place, key in enumerate(keys):
            places[partition_of(key, count)].append(place)
        return [(self.publishers[at], found) for at, found in enumerate(places) if found]

    async def flush(self) -> None:
        """Wait until all is answered; raises MessagesRefused if some were not taken."""
        for publisher in self.publishers:
            await publisher.flush()

    async def close(self) -> None:
        """Wait for what is unanswered and give the publishers back."""
        for publisher in self.publishers:
            await publisher.close()
