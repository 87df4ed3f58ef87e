"""Dead letters: messages that failed too often, or were rejected, on their way into the log that the policy names.

What is written keeps its bytes and says in message annotations where it comes from, and why it is here:

    x-opt-dead-letter-reason            symbol    delivery-count, or rejected
    x-opt-dead-letter-log               string
    x-opt-dead-letter-partition         ulong     its number in that log
    x-opt-dead-letter-offset            symbol    as consumers saw it
    x-opt-dead-letter-delivery-count    uint      deliveries that failed
    x-opt-dead-letter-consumer          string    subscription NAME, or group NAME

It is settled for the consumer when it is on disk there: after a crash between the two it may stand there twice.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from headwater.encoding.amqp_types import Symbol, Uint, Ulong
from headwater.encoding.delivery_annotations import offset_digits
from headwater.encoding.message_annotations import annotated
from headwater.engine.cursor import Cursor
from headwater.engine.cursor_set import CursorSet
from headwater.engine.delivery import DeadLetter
from headwater.errors import HeadwaterError, StorageError
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.management.logs import make_log
from headwater.server.record_source import RecordSource

__all__ = ["DeadLetters", "Grave"]

LETTERS_MAX = 256
"""Messages that are written at once, of one cursor."""
RETRY_S = 1.0

logger = logging.getLogger("headwater.consumers")

_LENGTH = struct.Struct(">I")


class Grave(msgspec.Struct, frozen=True):
    """A partition whose dead letters a consumer leaves behind."""

    log: Log
    number: int
    partition: Partition
    consumer: str


class DeadLetters:
    """Writes what cursors give up, a few messages of each at a time."""

    def __init__(
        self, store: Store, loop: asyncio.AbstractEventLoop, note_changes: Callable[[], None]
    ) -> None:
        self._store = store
        self._loop = loop
        self._note_changes = note_changes
        self._tasks: dict[Cursor[Any], asyncio.Task[None]] = {}

    def close(self) -> None:
        """Write no more: what is not written is found again at the next start."""
        for task in list(self._tasks.values()):
            task.cancel()

    def bury(self, log: Log, cursors: CursorSet[Any], consumer: str) -> None:
        """See to the dead letters that there are."""
        partitions = dict(zip(log.numbers, log.partitions, strict=True))
        for number, cursor in cursors.with_dead_letters():
            if cursor not in self._tasks and number in partitions:
                grave = Grave(log, number, partitions[number], consumer)
                task = self._tasks[cursor] = self._loop.create_task(self._work(grave, cursor))
                task.add_done_callback(lambda _, cursor=cursor: self._tasks.pop(cursor, None))  # type: ignore[misc]

    async def _work(self, grave: Grave, cursor: Cursor[Any]) -> None:
        """Write all that there is, until there is nothing more."""
        source = RecordSource(grave.partition, grave.partition.first_offset, "")
        try:
            while letters := cursor.take_dead_letters(LETTERS_MAX):
                is_written = False
                try:
                    await self._write(grave, source, letters)
                    is_written = True
                except HeadwaterError as error:
                    logger.error("%s: dead letters cannot be written yet: %s", grave.partition.name, error)
                finally:
                    for letter in letters:
                        if is_written:
                            cursor.dead_letters_written(letter.first, letter.end)
                        else:
                            cursor.dead_letters_failed(letter.first, letter.end)
                self._note_changes()
                if not is_written:
                    await asyncio.sleep(RETRY_S)
        finally:
            source.close()

    async def _write(self, grave: Grave, source: RecordSource, letters: Sequence[DeadLetter]) -> None:
        name, vhost = grave.log.definition.settings.dead_letter_log, grave.log.definition.vhost
        if name is None:
            logger.warning("%s: the log has no dead-letter log any more", grave.partition.name)
            return
        log = self._store.logs.get((vhost, name))
        if log is None:
            log = make_log(self._store, vhost, name, "stream", (), LogSettings())
        target = log.partitions[grave.number % len(log.partitions)]
        async for entries, count in _batches(grave, source, letters, target.settings):
            done: asyncio.Future[StorageError | None] = self._loop.create_future()
            target.append(entries, count, count, partial(_tell, done))
            error = await done
            if error is not None:
                raise error


def _tell(done: asyncio.Future[StorageError | None], error: StorageError | None) -> None:
    if not done.done():
        done.set_result(error)


async def _batches(
    grave: Grave, source: RecordSource, letters: Sequence[DeadLetter], settings: LogSettings
) -> AsyncIterator[tuple[bytes, int]]:
    """The entries to append, as many at a time as one append takes."""
    entries, count = bytearray(), 0
    for letter in letters:
        async for offset, record in _records(source, letter.first, letter.end):
            message = annotated(record, _annotations(grave, letter, offset))
            if len(message) > settings.entry_bytes_max:
                message = record  # without a word of where it comes from, rather than not at all
            if entries and len(entries) + _LENGTH.size + len(message) > settings.chunk_data_bytes_max:
                yield bytes(entries), count
                entries, count = bytearray(), 0
            entries += _LENGTH.pack(len(message)) + message
            count += 1
    if count:
        yield bytes(entries), count


def _annotations(grave: Grave, letter: DeadLetter, offset: int) -> dict[Symbol | Ulong, Any]:
    return {
        Symbol("x-opt-dead-letter-reason"): Symbol(letter.reason.value),
        Symbol("x-opt-dead-letter-log"): grave.log.name,
        Symbol("x-opt-dead-letter-partition"): Ulong(grave.number),
        Symbol("x-opt-dead-letter-offset"): Symbol(offset_digits(offset), "ascii"),
        Symbol("x-opt-dead-letter-delivery-count"): Uint(letter.delivery_count),
        Symbol("x-opt-dead-letter-consumer"): grave.consumer,
    }


async def _records(source: RecordSource, first: int, end: int) -> AsyncIterator[tuple[int, bytes]]:
    """The records of a range that are still there, with their offsets."""
    has_read = asyncio.Event()
    source.seek(first)
    while source.position < end:
        if not source.records and not source.fill(has_read.set):
            if source.is_waiting:
                await has_read.wait()
                has_read.clear()
            elif not source.has_passed_over:
                return
            continue
        records = source.records[0]
        if records.offset >= end:
            return
        yield records.offset, records.first_record()
        source.take(1)
