"""What a run consists of: streams, publishers, consumers and groups, drawn from the seed and read by every process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import msgspec

from headwater.encoding.compression import Compression

__all__ = [
    "AMQP_DOOR",
    "STREAM_DOOR",
    "Consumer",
    "Group",
    "Plan",
    "Publisher",
    "Stream",
    "Subscriber",
    "make_plan",
]

AMQP_DOOR, STREAM_DOOR = "amqp", "streams"
IN_FLIGHT_WANTED = 100_000
PARTITIONS = 3
MEMBER_PROCESSES = 3


class Stream(msgspec.Struct, frozen=True):
    """A stream, and how it is made."""

    name: str
    arguments: Mapping[str, str]
    super_stream: str | None = None


class Publisher(msgspec.Struct, frozen=True):
    """Who publishes what where; without a reference it is anonymous."""

    number: int
    stream: str
    process: str
    reference: str | None
    batch: int
    """Ids in one frame."""
    window: int
    """Ids that it leaves unconfirmed at most."""
    rate: int
    """Records a second while nobody asks for a burst."""
    filters: tuple[str, ...] = ()
    sub_batch: tuple[int, int] | None = None
    """Records, and their compression."""
    door: str = STREAM_DOOR

    @property
    def records_per_id(self) -> int:
        """How many offsets one publishing id takes."""
        return 1 if self.sub_batch is None else self.sub_batch[0]


class Consumer(msgspec.Struct, frozen=True):
    """Who reads which stream, and where it goes on after its connection was lost."""

    name: str
    stream: str
    process: str
    resumes: str
    """`position`: where it was. `stored`: behind the offset that it stored. `first`: from the beginning again."""
    credit: int
    filters: tuple[str, ...] = ()
    match_unfiltered: bool = False
    stalls: bool = False
    """Whether it stops reading now and then."""
    door: str = STREAM_DOOR


class Group(msgspec.Struct, frozen=True):
    """Single active consumers of one name: on a stream, or on all partitions of a super stream."""

    reference: str
    streams: tuple[str, ...]
    super_stream: str | None = None


class Subscriber(msgspec.Struct, frozen=True):
    """Who consumes from a durable, shared, global subscription to a stream, which begins at its first message."""

    name: str
    subscription: str
    stream: str
    process: str
    credit: int


class Plan(msgspec.Struct, frozen=True):
    """All that a seed decides before the run begins."""

    seed: int
    streams: tuple[Stream, ...]
    super_streams: tuple[str, ...]
    publishers: tuple[Publisher, ...]
    consumers: tuple[Consumer, ...]
    groups: tuple[Group, ...]
    members: tuple[str, ...]
    """Processes that hold one member of every group each."""
    subscribers: tuple[Subscriber, ...]
    side_streams: tuple[str, ...]
    """Streams that are made and deleted all the time."""
    side_process: str
    heartbeat_s: int
    """Of consumers, so that frozen ones are given up during a run."""

    @property
    def processes(self) -> tuple[str, ...]:
        """All client processes."""
        names = {self.side_process, *self.members}
        names.update(publisher.process for publisher in self.publishers)
        names.update(consumer.process for consumer in self.consumers)
        names.update(subscriber.process for subscriber in self.subscribers)
        return tuple(sorted(names))

    def gauges(self) -> Iterator[str]:
        """What the processes show each other while they run; see `board.py`."""
        for publisher in self.publishers:
            yield unconfirmed_gauge(publisher.number)
        for consumer in self.consumers:
            yield position_gauge(consumer.name)
            yield target_gauge(consumer.name)
        for group in self.groups:
            yield from (position_gauge(f"{group.reference}/{stream}") for stream in group.streams)
        for subscriber in self.subscribers:
            yield position_gauge(subscriber.name)
            yield held_gauge(subscriber.name)
        yield from map(target_gauge, self.subscriptions)

    def unknown_gauges(self) -> Iterator[str]:
        """Those that nobody can tell at first."""
        yield from (unconfirmed_gauge(publisher.number) for publisher in self.publishers)
        yield from (target_gauge(consumer.name) for consumer in self.consumers)
        yield from map(target_gauge, self.subscriptions)

    @property
    def subscriptions(self) -> dict[str, str]:
        """The stream of each subscription."""
        return {subscriber.subscription: subscriber.stream for subscriber in self.subscribers}


def unconfirmed_gauge(number: int) -> str:
    """Records that a publisher has sent on its connection and that are not confirmed."""
    return f"unconfirmed {number}"


def position_gauge(who: str) -> str:
    """How far a consumer, or a group on a stream, has come."""
    return f"position {who}"


def held_gauge(who: str) -> str:
    """Messages that a subscriber has and that the server has not settled."""
    return f"held {who}"


def target_gauge(who: str) -> str:
    """How far a consumer is to come before it may end; -1 while nobody knows."""
    return f"target {who}"


def make_plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"plan {seed}")
    plain = [Stream(f"plain-{index}", _arguments(rng)) for index in range(rng.randint(2, 3))]
    filtered = Stream(
        "filtered", {**_arguments(rng), "stream-filter-size-bytes": str(rng.choice((16, 64, 255)))}
    )
    partitions = [Stream(f"super-{index}", {}, "super") for index in range(PARTITIONS)]
    streams = (*plain, filtered, *partitions)
    publishers = tuple(_publishers(rng, plain, filtered, partitions))
    return Plan(
        seed,
        streams,
        ("super",),
        publishers,
        tuple(_consumers(rng, plain, filtered, partitions)),
        (
            Group("group-plain", (plain[0].name,)),
            Group("group-super", tuple(stream.name for stream in partitions), "super"),
        ),
        tuple(f"member-{index}" for index in range(MEMBER_PROCESSES)),
        tuple(_subscribers(rng, partitions)),
        ("side-0", "side-1"),
        "consume-1",
        heartbeat_s=2,
    )


def _arguments(rng: random.Random) -> dict[str, str]:
    """Small segments, so that there are many; or as they are by default."""
    size = rng.choice((256 << 10, 1 << 20, 4 << 20, 0))
    return {"stream-max-segment-size-bytes": str(size)} if size else {}


def _publishers(
    rng: random.Random, plain: list[Stream], filtered: Stream, partitions: list[Stream]
) -> Iterator[Publisher]:
    places: list[tuple[str, str]] = [("named", stream.name) for stream in [*plain, *partitions]]
    places += [("named", plain[0].name), ("anonymous", plain[0].name), ("sub-batch", plain[1].name)]
    places += [
        ("anonymous sub-batch", plain[-1].name),
        ("filtered", filtered.name),
        ("filtered", filtered.name),
    ]
    places += [("anonymous amqp", plain[0].name), ("anonymous amqp", partitions[0].name)]
    # More than what is wanted in flight, for not all of them fill their windows.
    window = 3 * IN_FLIGHT_WANTED // 2 // len(places)
    for number, (kind, stream) in enumerate(places):
        records = rng.choice((2, 10, 100)) if "sub-batch" in kind else 1
        compression = rng.choice(list(Compression))
        yield Publisher(
            number,
            stream,
            f"publish-{number % 2}",
            None if "anonymous" in kind else f"publisher {number}",
            batch=max(1, rng.choice((20, 100, 400)) // records),
            window=window // records,
            rate=rng.choice((200, 1000, 2000)),
            filters=("red", "green", "") if kind == "filtered" else (),
            sub_batch=(records, int(compression)) if "sub-batch" in kind else None,
            door=AMQP_DOOR if "amqp" in kind else STREAM_DOOR,
        )


def _consumers(
    rng: random.Random, plain: list[Stream], filtered: Stream, partitions: list[Stream]
) -> Iterator[Consumer]:
    for stream in (*plain, rng.choice(partitions)):
        yield Consumer(
            f"stored on {stream.name}", stream.name, "consume-0", "stored", rng.choice((2, 10, 50))
        )
    for stream in (*plain, filtered):
        resumes = rng.choice(("position", "position", "first"))
        yield Consumer(
            f"{resumes} on {stream.name}", stream.name, "consume-0", resumes, rng.choice((1, 2, 10))
        )
    yield Consumer("slow", plain[0].name, "slow", "position", 50, stalls=True)
    yield Consumer("red", filtered.name, "consume-1", "position", 10, filters=("red",))
    yield Consumer(
        "green or none", filtered.name, "consume-1", "position", 3, filters=("green",), match_unfiltered=True
    )
    # What the one door takes the other one gives: streams with sub-batches, with filter values, and of both doors.
    for stream, resumes in ((plain[0], "position"), (plain[1], "first"), (filtered, "position")):
        credit = rng.choice((10, 100, 1000))
        yield Consumer(f"amqp on {stream.name}", stream.name, "consume-amqp", resumes, credit, door=AMQP_DOOR)


def _subscribers(rng: random.Random, partitions: list[Stream]) -> Iterator[Subscriber]:
    for stream, count in ((partitions[1], 2), (partitions[2], 3)):
        for index in range(count):
            yield Subscriber(
                f"subscriber {index} of {stream.name}",
                f"subscription of {stream.name}",
                stream.name,
                f"subscribe-{index % 2}",
                rng.choice((10, 100, 1000)),
            )
