"""The work of `headwater tail`: chunks of one or several streams to lines on standard output."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from headwater.cli.connecting import Misused, Stop
from headwater.client.chunk_view import Chunk
from headwater.client.errors import RequestRefused
from headwater.client.stream_connection import IDS_MAX, StreamConnection
from headwater.client.stream_consumer import FIRST, LAST, NEXT, StreamConsumer, at_offset, at_timestamp
from headwater.client.super_stream import streams_of
from headwater.encoding.amqp_message import body_of
from headwater.streams.commands import OffsetSpecification, OffsetType

__all__ = ["IDLE_S", "Line", "Wanted", "moment", "place", "show", "shown", "with_body", "write_out"]

IDLE_S = 2.0
"""Without --follow, the end where the server cannot say it: filters leave chunks out."""
STORE_INTERVAL_S = 1.0

_WORDS = {"first": FIRST, "last": LAST, "next": NEXT}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")
_OFFSET = re.compile("[0-9]{1,19}")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show."""

    stream: str
    offset: OffsetSpecification
    count: int | None = None
    follow: bool = True
    filter_values: tuple[str, ...] = ()
    match_unfiltered: bool = False
    name: str | None = None
    as_json: bool = False


class Line(msgspec.Struct, omit_defaults=True):
    """A message as a JSON document."""

    stream: str
    partition: str | None = None
    offset: int | None = None
    timestamp: str | None = None
    body: str | None = None
    body_base64: bytes | None = None


@dataclass(slots=True)
class _Source:
    """One stream that is shown, up to and with the chunk that begins at `last_chunk`."""

    consumer: StreamConsumer
    last_chunk: int | None
    is_bounded_by_time: bool
    shown_offset: int | None = field(default=None)
    stored_offset: int | None = field(default=None)


def place(text: str) -> OffsetSpecification:
    """What --from means; raises Misused."""
    if text in _WORDS:
        return _WORDS[text]
    if _OFFSET.fullmatch(text) and int(text) <= _OFFSET_MAX:
        return at_offset(int(text))
    if ago := _AGO.fullmatch(text):
        return at_timestamp(int((time.time() - int(ago[1]) * _UNIT_S[ago[2]]) * 1000))
    try:
        return at_timestamp(int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        expected = "first, last, next, an offset, a time such as 2026-01-31T12:00:00Z, or 10m"
        raise Misused(f"--from {text!r} is none of {expected}") from None


async def show(connection: StreamConnection, wanted: Wanted, stop: Stop) -> None:
    """Write messages to standard output until there were enough, or it is to stop."""
    streams = await streams_of(connection, wanted.stream)
    if len(streams) > IDS_MAX:
        reason = (
            f"{wanted.stream!r} has {len(streams)} partitions; name one of them, or up to {IDS_MAX} are shown"
        )
        raise Misused(reason)
    found = [await _open(connection, stream, wanted) for stream in streams]
    sources = [source for source in found if source is not None]
    printer = _Printer(wanted)
    try:
        async for source, chunk in _merged(sources, stop):
            if not printer.print(source, chunk):
                break
            printer.store(sources)
    finally:
        printer.store(sources, at_once=True)


async def _open(connection: StreamConnection, stream: str, wanted: Wanted) -> _Source | None:
    """The stream to read, or None where nothing of what is wanted is there."""
    offset = wanted.offset
    if wanted.name is not None:
        stored = await connection.stored_offset(wanted.name, stream)
        offset = offset if stored is None else at_offset(stored + 1)
    last_chunk = None
    if not wanted.follow:
        last_chunk = await _last_chunk(connection, stream, offset)
        if last_chunk is None:
            return None
    consumer = await StreamConsumer.open(
        connection,
        stream,
        offset,
        name=wanted.name,
        filter_values=wanted.filter_values,
        match_unfiltered=wanted.match_unfiltered,
    )
    return _Source(consumer, last_chunk, bool(wanted.filter_values) and not wanted.follow)


async def _last_chunk(connection: StreamConnection, stream: str, offset: OffsetSpecification) -> int | None:
    """Where the last chunk begins now; None if nothing is there from the offset on."""
    stats = await connection.stream_stats(stream)
    last = stats.get("committed_chunk_id", -1)
    end = stats.get("committed_offset", last) + 1
    if offset.type in (OffsetType.TIMESTAMP, OffsetType.NEXT, OffsetType.OFFSET):
        start = offset.value if offset.type is OffsetType.OFFSET else end
        if offset.type is OffsetType.TIMESTAMP:
            start = await _resolved(connection, stream, offset)
        if start >= end:
            return None
    return last if last >= 0 else None


async def _resolved(connection: StreamConnection, stream: str, offset: OffsetSpecification) -> int:
    try:
        return await connection.resolve_offset(stream, offset)
    except RequestRefused as error:
        reason = f"the server cannot say what is there since then ({error}); use an offset, or --follow"
        raise Misused(reason) from None


async def _merged(sources: list[_Source], stop: Stop) -> AsyncIterator[tuple[_Source, Chunk]]:
    """The chunks of all streams as they come; ends when each has given its last one."""
    waits = {asyncio.ensure_future(_next(source)): source for source in sources}
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while waits and not stop.is_set:
            done, _ = await asyncio.wait([*waits, stopping], return_when=asyncio.FIRST_COMPLETED)
            for wait in done & waits.keys():
                source = waits.pop(wait)
                chunk = wait.result()
                if chunk is None:
                    continue
                yield source, chunk
                if source.last_chunk is None or chunk.first_offset < source.last_chunk:
                    waits[asyncio.ensure_future(_next(source))] = source
    finally:
        for each in (*waits, stopping):
            each.cancel()
        await asyncio.gather(*waits, stopping, return_exceptions=True)


async def _next(source: _Source) -> Chunk | None:
    try:
        async with asyncio.timeout(IDLE_S if source.is_bounded_by_time else None):
            return await source.consumer.next_chunk()
    except TimeoutError:
        return None


class _Printer:
    """Lines of chunks, written once for a chunk."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._left = wanted.count
        self._store_due = 0.0
        self._encode = msgspec.json.Encoder().encode_lines

    def print(self, source: _Source, chunk: Chunk) -> bool:
        """Show a chunk; False when that was enough."""
        messages = list(chunk.messages())
        if self._left is not None:
            messages = messages[: self._left]
            self._left -= len(messages)
        if messages:
            self._write(chunk, messages)
            source.shown_offset = messages[-1][0]
        return self._left != 0

    def store(self, sources: list[_Source], *, at_once: bool = False) -> None:
        """Keep on the server how far it came, now and then."""
        if self._wanted.name is None or not (at_once or time.monotonic() >= self._store_due):
            return
        self._store_due = time.monotonic() + STORE_INTERVAL_S
        for source in sources:
            if source.shown_offset != source.stored_offset and source.consumer.error is None:
                assert source.shown_offset is not None
                source.consumer.store_offset(source.shown_offset)
                source.stored_offset = source.shown_offset

    def _write(self, chunk: Chunk, messages: Iterable[tuple[int, bytes]]) -> None:
        if self._wanted.as_json:
            written = moment(chunk.timestamp_ms)
            lines = [
                _line(self._wanted.stream, chunk, offset, written, message) for offset, message in messages
            ]
            data = self._encode(lines)
        else:
            data = b"".join([shown(message) for _, message in messages])
        if not write_out(data):
            self._left = 0


def write_out(data: bytes) -> bool:
    """Write to standard output; False when whoever read it has enough."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # What Python flushes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def moment(timestamp_ms: int) -> str:
    """A time for people and programs."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _line(stream: str, chunk: Chunk, offset: int, written: str, message: bytes) -> Line:
    return with_body(Line(stream, chunk.stream, offset, written), message)


def with_body(line: Line, message: bytes) -> Line:
    """The line with the body of its message, as text if it is text."""
    body = body_of(message)
    body = message if body is None else body
    try:
        return msgspec.structs.replace(line, body=body.decode())
    except UnicodeDecodeError:
        return msgspec.structs.replace(line, body_base64=body)


def shown(message: bytes) -> bytes:
    """A message as one line that does nothing to a terminal."""
    body = body_of(message)
    text = (message if body is None else body).decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join([each if each.isprintable() or each == "\t" else _escaped(each) for each in text])
    return text.encode() + b"\n"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
