"""Links whose deliveries are accounted for: what goes out is taken from a cursor, and settled there by the client."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.amqp.messaging import Accepted, DeliveryState, Modified, Rejected, Released, Source
from headwater.amqp.sender_link import SenderLink
from headwater.encoding.ranges import IdRange
from headwater.engine.cursor import Cursor
from headwater.engine.cursor_set import PartitionRun
from headwater.engine.delivery import Outcome
from headwater.errors import PartitionDeleted, StorageError
from headwater.server.amqp.delivery_offsets import DeliveryOffsets
from headwater.server.amqp.feed import Feed
from headwater.server.amqp.feeds import Feeds
from headwater.server.amqp.intake import error_of
from headwater.server.amqp.link_owner import LinkHandler, LinkOwner
from headwater.server.amqp.nodes import Refused
from headwater.server.consumers.consumers import Consumers

__all__ = ["AccountedLink", "default_outcome"]

BYTES_PER_WRITE = 128 * 1024
SELECTED_FROM = 256
"""So many messages are taken at least where a filter is to choose from them, whatever the credit."""


class AccountedLink(LinkHandler):
    """What subscribers and members of groups have in common; they say whose the cursors are."""

    def __init__(self, link: SenderLink, owner: LinkOwner, consumers: Consumers, name: str) -> None:
        self.link: SenderLink = link
        self.name = name
        """Of the log, as permissions know it."""
        self._owner = owner
        self._consumers = consumers
        self._offsets = DeliveryOffsets()
        self._announced: list[str] | None = None
        self._is_closed = False

    @property
    def connection_name(self) -> str:
        """Of the connection that it is on."""
        return self._owner.name

    # Of those who know the cursors

    def _settle(
        self, partition: int, first: int, end: int, outcome: Outcome, *, is_undeliverable_here: bool = False
    ) -> tuple[Cursor[Any], int] | None:
        """Tell what became of messages; gives the cursor, and the sequence that makes it durable, if it matters."""
        raise NotImplementedError

    def _bury(self) -> None:
        """There may be dead letters."""
        raise NotImplementedError

    def _more_is_due(self) -> None:
        """Something has come back, or there is room for more to be handed out."""
        raise NotImplementedError

    # From the client

    def settled(self, ranges: Sequence[IdRange], state: DeliveryState | None, *, is_settled: bool) -> None:
        meaning = _meaning(state, default_outcome(self.link) if is_settled else None)
        if meaning is None:
            return  # the client has more to say
        outcome, is_undeliverable_here = meaning
        for ids in ranges:
            told = [
                self._settle(
                    each.partition,
                    each.first,
                    each.end,
                    outcome,
                    is_undeliverable_here=is_undeliverable_here,
                )
                for each in self._offsets.of(*ids)
            ]
            if not is_settled:
                for each in self._offsets.missing(*ids):
                    self._answer(each, Released())  # of what was revoked nothing is settled
                waited_for = [each for each in told if each is not None]
                self._when_durable(waited_for, partial(self._answer, ids, state))
        if outcome in _MAY_KILL:
            self._bury()
        self._consumers.note_changes()
        self._more_is_due()

    def when_settled(self, call: Callable[[], None]) -> bool:
        return self._consumers.when_written(call)

    def close(self) -> None:
        self._is_closed = True

    def failed(self, error: StorageError) -> None:
        """What the link asked for could not be recorded."""
        self._owner.break_link(self.link, error_of(error))

    def stolen(self) -> None:
        """Another link took its place."""
        error = ErrorValue(Condition.LINK_STOLEN, f"another receiver took over from link {self.link.name!r}")
        self._owner.break_link(self.link, error)

    def reset(self) -> None:
        """What it consumes from goes on from elsewhere."""
        words = f"where link {self.link.name!r:.100} goes on from was reset; attach again"
        self._owner.break_link(self.link, ErrorValue(Condition.LINK_DETACH_FORCED, words))

    # To the client

    def announce(self, partitions: Iterable[int], feeds: Feeds) -> None:
        """The link has these partitions now, and had others before: its next delivery says so (ES-17)."""
        self._announced = [feeds.id_of(number) for number in partitions]

    def room(self, feeds: Feeds) -> int:
        """Messages to take now; what a filter leaves out costs no credit."""
        if self._is_closed or not self._owner.can_deliver():
            return 0
        room = self.link.room
        return max(room, SELECTED_FROM) if room and feeds.selects else room

    def _may_read(self) -> bool:
        """Whether the user may still read; else the link is ended."""
        error = self._not_allowed()
        if error is not None:
            self._owner.break_link(self.link, error)
        return error is None

    def send(self, feeds: Feeds, runs: Sequence[PartitionRun]) -> int:
        """Send what a cursor handed out; what cannot go now it gets back. Gives how many it was done with."""
        done_count, error = 0, self._not_allowed()
        for each in runs:
            first, end = each.run.first, each.run.end
            if error is None:
                first, error = self._send_run(feeds, each)
            done_count += first - each.run.first
            if first < end:
                # Before the link ends, if it does: this was never sent, and no attempt at it failed.
                self._settle(each.partition, first, end, Outcome.RELEASED)
        if error is not None:
            self._owner.break_link(self.link, error)
        self._consumers.note_changes()
        return done_count

    def _send_run(self, feeds: Feeds, each: PartitionRun) -> tuple[int, ErrorValue | None]:
        """Send what can go of a run; gives up to where it was tried, and why the link cannot go on."""
        run, reached = each.run, each.run.first
        if feeds.is_waiting(each.partition):
            return reached, None
        feed = feeds.at(each.partition, reached)
        try:
            while reached < run.end and self.link.may_send and self._owner.can_deliver():
                before, reached = reached, self._send_some(feeds, feed, each, reached)
                self._owner.flush()
                if reached == before:
                    break
        except StorageError as error:
            if not isinstance(error, PartitionDeleted):
                self._owner.note_failure(feed.partition, error)
            return min(max(feed.position, reached), run.end), error_of(error)
        except Refused as refused:
            return min(max(feed.position, reached) + 1, run.end), refused.value
        feeds.note_end(each.partition, feed)
        return reached, None

    def _send_some(self, feeds: Feeds, feed: Feed, each: PartitionRun, reached: int) -> int:
        """Send the next messages of a run; gives up to where it is done with."""
        run, id_ = each.run, self.link.session.next_delivery_id
        sent = feed.send(
            self.link,
            BYTES_PER_WRITE,
            feeds.when_read,
            end=run.end,
            delivery_count=run.delivery_count,
            announced=self._announced,
        )
        if sent:
            self._announced = None
        for first, end in sent:
            if self.link.sends_settled:
                self._settle(each.partition, first, end, Outcome.ACCEPTED)
            else:
                self._offsets.note(id_, each.partition, first, end, self.link.unsettled.has_any)
                id_ += end - first
        following = min(max(feed.position, reached), run.end)
        for first, end in _between(sent, reached, following):
            self._settle(each.partition, first, end, Outcome.ACCEPTED)
        return following

    def drained(self) -> None:
        """There is nothing more for now; if only the way is full, the rest of the credit is for later."""
        has_way = self.link.may_send and self._owner.can_deliver()
        if self.link.is_draining and (has_way or not self.link.credit):
            self.link.drained()
            self._owner.answered()

    # Helpers

    def _not_allowed(self) -> ErrorValue | None:
        if self._owner.may_read(self.name):
            return None
        return ErrorValue(Condition.UNAUTHORIZED_ACCESS, f"reading {self.name!r} is no longer allowed")

    def _answer(self, ids: IdRange, state: DeliveryState | None) -> None:
        if not self._is_closed:
            self.link.settle(ids, state)
            self._owner.answered()

    def _when_durable(self, waited_for: Sequence[tuple[Cursor[Any], int]], call: Callable[[], None]) -> None:
        """Call when all these settlements are on disk."""
        left = 1

        def durable() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._owner.guarded(call)

        for cursor, sequence in waited_for:
            left += self._consumers.wait(cursor, sequence, durable)
        durable()


def default_outcome(link: SenderLink) -> DeliveryState:
    """What it means on a link that a delivery is settled, and nothing said of it (part 3, section 3.5.3)."""
    source = link.remote.source
    asked = source.default_outcome if isinstance(source, Source) else None
    return asked if isinstance(asked, Accepted | Rejected | Modified) else Released()


def _between(sent: Sequence[IdRange], start: int, end: int) -> Iterator[IdRange]:
    """What lies before, between and behind ranges in order."""
    for first, following in sent:
        if start < first:
            yield start, first
        start = following
    if start < end:
        yield start, end


def _meaning(state: DeliveryState | None, default: DeliveryState | None) -> tuple[Outcome, bool] | None:
    """What a delivery state says, and whether of this link alone; None if it is not the end of a delivery."""
    with contextlib.suppress(KeyError):
        return _PLAIN[type(state)], False
    if isinstance(state, Modified):
        return Outcome.FAILED if state.delivery_failed else Outcome.RELEASED, state.undeliverable_here
    return None if default is None else _meaning(default, Released())


_MAY_KILL = frozenset({Outcome.REJECTED, Outcome.FAILED})
_PLAIN: dict[type, Outcome] = {
    Accepted: Outcome.ACCEPTED,
    Rejected: Outcome.REJECTED,
    Released: Outcome.RELEASED,
}
