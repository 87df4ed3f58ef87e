"""Messages on their way to an AMQP node: what became of them, by ranges, however many there are."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from headwater.amqp.messaging import Accepted, DeliveryState
from headwater.client.amqp_errors import Refusal
from headwater.errors import HeadwaterError

__all__ = ["SentBatch", "Unsettled"]

_GONE_MIN = 1024
"""So many settled runs may stand before the first unsettled one until the lists are cut."""


class SentBatch:
    """Messages that were sent together; `settled` waits for what becomes of them."""

    __slots__ = (
        "_error",
        "_waiter",
        "count",
        "first_number",
        "is_kept",
        "is_told",
        "refusals",
        "unsettled_count",
    )

    def __init__(self, first_number: int, count: int, unsettled_count: int) -> None:
        self.first_number = first_number
        """Of the first message, among all that its sender has sent."""
        self.count = count
        self.unsettled_count = unsettled_count
        self.refusals: list[Refusal] = []
        """What was not accepted, as far as it is known."""
        self.is_told = False
        """Whether somebody has asked for what becomes of them."""
        self.is_kept = False
        """Whether its sender remembers it, for it was refused in part."""
        self._error: HeadwaterError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def settled(self) -> list[Refusal]:
        """Wait until it is known of all messages what became of them; gives those that were not accepted.

        Raises what ended the link before: of what is unsettled then nobody knows whether it was taken.
        """
        self.is_told = True
        while self.unsettled_count:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._waiter is None:
                self._waiter = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)
        return self.refusals

    def numbered_refusals(self) -> list[Refusal]:
        """What was not accepted, by the numbers of the sender."""
        return [msgspec.structs.replace(each, first=self.first_number + each.first) for each in self.refusals]

    def took(self, first: int, count: int, outcome: DeliveryState | None) -> None:
        """What became of some messages."""
        self.unsettled_count -= count
        if not isinstance(outcome, Accepted):
            self.refusals.append(Refusal(first, count, outcome))
        if not self.unsettled_count:
            self._wake()

    def ended(self, error: HeadwaterError) -> None:
        """Nothing more will be known."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class _Run:
    """Deliveries with consecutive ids that are messages of one batch from `index` on."""

    __slots__ = ("batch", "end", "first", "index", "unsettled_count")

    def __init__(self, first: int, end: int, batch: SentBatch, index: int) -> None:
        self.first = first
        self.end = end
        self.batch = batch
        self.index = index
        self.unsettled_count = end - first


class Unsettled:
    """Which deliveries are messages of which batch, until they are settled."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._ends: list[int] = []
        self._gone = 0
        """Runs at the beginning of the lists that are settled."""
        self.count = 0

    def add(self, first: int, count: int, batch: SentBatch, index: int) -> None:
        """Deliveries with ids above all that were added before."""
        self._runs.append(_Run(first, first + count, batch, index))
        self._ends.append(first + count)
        self.count += count

    def settle(
        self, first: int, end: int, outcome: DeliveryState | None
    ) -> Iterator[tuple[SentBatch, int, int]]:
        """Tell the batches of these deliveries, each of which is settled once; gives batch, first index and count."""
        at = bisect_right(self._ends, first, self._gone)
        while at < len(self._runs) and (run := self._runs[at]).first < end:
            low, high = max(first, run.first), min(end, run.end)
            run.unsettled_count -= high - low
            self.count -= high - low
            index = run.index + low - run.first
            run.batch.took(index, high - low, outcome)
            yield run.batch, index, high - low
            at += 1
        self._drop()

    def end(self, error: HeadwaterError) -> None:
        """Of what is left nothing more will be known."""
        for run in self._runs[self._gone :]:
            if run.unsettled_count:
                run.batch.ended(error)

    def _drop(self) -> None:
        runs, gone = self._runs, self._gone
        while gone < len(runs) and not runs[gone].unsettled_count:
            gone += 1
        self._gone = gone
        # Outcomes come in order: cutting the lists each time would make long ones quadratic.
        if gone == len(runs) or (gone > _GONE_MIN and 2 * gone > len(runs)):
            del self._runs[:gone]
            del self._ends[:gone]
            self._gone = 0
