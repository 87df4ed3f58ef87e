"""Messages for `headwater publish`: arguments, or the lines of a file or of standard input, in batches."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from headwater.cli.connecting import Misused, Stop
from headwater.client.errors import MessageTooLarge

__all__ = ["LINE_BYTES_MAX", "Lines", "repeated"]

LINE_BYTES_MAX = 1 << 20
READ_BYTES = 1 << 20


async def repeated(
    messages: list[bytes], count: int | None, batch_messages: int
) -> AsyncIterator[list[bytes]]:
    """The messages once, or again and again until there were `count`."""
    left = len(messages) if count is None else count
    full = messages * (batch_messages // len(messages) + 2)
    at = 0
    while left > 0:
        size = min(left, batch_messages)
        yield full[at : at + size]
        at = (at + size) % len(messages)
        left -= size


class Lines:
    """The lines of a file or, as they come, of standard input; the last one needs no end of line."""

    def __init__(self, file: Path | None) -> None:
        self.read_bytes = 0
        self.size_bytes: int | None = None
        """Of a file of which that is known."""
        self._is_ours = file is not None
        try:
            self._fd = 0 if file is None else os.open(file, os.O_RDONLY)
        except OSError as error:
            raise Misused(
                f"cannot read {file}: {error.strerror}; name a file with a message on each line"
            ) from error
        status = os.fstat(self._fd)
        self._waits = not stat.S_ISREG(status.st_mode)
        if stat.S_ISREG(status.st_mode):
            self.size_bytes = status.st_size

    async def batches(self, batch_messages: int, stop: Stop) -> AsyncIterator[list[bytes]]:
        """Lists of up to `batch_messages` lines; what is there is given at once, full or not."""
        rest = b""
        try:
            while data := await self._read(stop):
                self.read_bytes += len(data)
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                if len(rest) > LINE_BYTES_MAX:
                    raise MessageTooLarge(len(rest), LINE_BYTES_MAX)
                for batch in _cut(lines, batch_messages):
                    yield batch
            if rest:
                yield [rest]
        finally:
            if self._is_ours:
                os.close(self._fd)

    async def _read(self, stop: Stop) -> bytes:
        """What is there, at least a byte; nothing at the end, or when the command is to stop."""
        if self._waits and await stop.or_done(_readable(self._fd)) is None:
            return b""
        return b"" if stop.is_set else os.read(self._fd, READ_BYTES)


async def _readable(fd: int) -> bool:
    """Return when something can be read; the descriptor stays blocking, for others may share it."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    try:
        loop.add_reader(fd, _set, ready)
    except OSError:
        # Such as /dev/null: never waits, so nothing can be waited for.
        return True
    try:
        await ready
    finally:
        loop.remove_reader(fd)
    return True


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _cut(lines: list[bytes], size: int) -> Iterator[list[bytes]]:
    if len(lines) <= size:
        if lines:
            yield lines
        return
    for at in range(0, len(lines), size):
        yield lines[at : at + size]
