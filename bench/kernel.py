"""What the kernels and the sealing of a chunk cost, with a loop in C beside them."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.figure import Figure, Options, at_least, figure_of
from headwater.encoding import chunk
from headwater.encoding._hash_kernel import murmur3_32
from headwater.encoding._kernel import (
    SCAN_FIELDS,
    filter_values,
    gather_published,
    scan_chunks,
    walk_entries,
)
from headwater.encoding.chunk import ChunkType

__all__ = ["run"]

ROUNDS = 60
ROUND_SECONDS = 0.01
MESSAGES = 1_000
MESSAGE_BYTES = 100
AIM_M_PER_S = 150.0


class Bench:
    """Times many rounds of calls on warm buffers."""

    def __init__(self, options: Options) -> None:
        self._rounds = options.scaled(ROUNDS, 2)
        self._round_seconds = ROUND_SECONDS * min(1.0, options.scale)

    def measure(self, name: str, things: int, thing: str, call: Callable[[], object]) -> Figure:
        """Millions of things a second, of which one call handles so many."""
        started = time.perf_counter_ns()
        call()
        call()
        calls = max(1, int(self._round_seconds * 2e9 / max(1, time.perf_counter_ns() - started)))
        rounds = [_round_ns(call, calls) for _ in range(self._rounds)]
        return figure_of(f"kernel: {name}", [1e3 * things / spent for spent in rounds], f"M {thing}/s")


def _round_ns(call: Callable[[], object], calls: int) -> float:
    repeats = range(calls)
    started = time.perf_counter_ns()
    for _ in repeats:
        call()
    return (time.perf_counter_ns() - started) / calls


def run(options: Options) -> list[Figure]:
    """All of them."""
    bench = Bench(options)
    return [*gather_figures(bench), *chunk_figures(bench), *murmur_figures(bench)]


def published(filtered: bool) -> bytes:
    """A Publish body of equal messages."""
    value = b"\x00\x02eu" if filtered else b""
    entry = struct.pack(">I", MESSAGE_BYTES) + bytes(range(MESSAGE_BYTES))
    return b"".join(struct.pack(">Q", number) + value + entry for number in range(MESSAGES))


def gather_figures(bench: Bench) -> list[Figure]:
    """Publish bodies into chunk data: without a name, with one, with filter values, and the loop in C."""
    plain, filtered = published(False), published(True)
    out, ids = bytearray(1 << 20), bytearray(8 * MESSAGES)

    def gather(body: bytes, with_filter: bool, last: int) -> Callable[[], object]:
        return lambda: gather_published(
            body, 0, len(body), MESSAGES, with_filter, last, out, 48, len(out), 65_535, ids, 0
        )

    figures = [
        bench.measure("gather_published", MESSAGES, "entry", gather(plain, False, -1)),
        bench.measure("gather_published, named publisher", MESSAGES, "entry", gather(plain, False, -2)),
        bench.measure("gather_published, all duplicates", MESSAGES, "entry", gather(plain, False, MESSAGES)),
        bench.measure("gather_published, filter values", MESSAGES, "entry", gather(filtered, True, -1)),
        bench.measure(
            "filter_values", MESSAGES, "entry", lambda: filter_values(filtered, 0, len(filtered), MESSAGES)
        ),
    ]
    bare = yardstick(bench, plain)
    note, ratio = (
        ("", None) if not bare else (f"in C {bare[0].median:.0f}", figures[0].median / bare[0].median)
    )
    figures[0] = msgspec.structs.replace(figures[0], yardstick=note, ratio=ratio, aim=at_least(AIM_M_PER_S))
    return [*figures, *bare]


def yardstick(bench: Bench, body: bytes) -> list[Figure]:
    """The same loop in plain C, compiled now; nothing where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "gather.so"
        source = Path(__file__).with_name("gather.c")
        command = [compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        function = ctypes.CDLL(str(library)).gather
    function.restype = ctypes.c_int64
    function.argtypes = [
        ctypes.c_char_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    out, ids = ctypes.create_string_buffer(1 << 20), ctypes.create_string_buffer(8 * MESSAGES)
    return [
        bench.measure(
            "the loop in C (gcc -O3, through ctypes)",
            MESSAGES,
            "entry",
            lambda: function(body, len(body), MESSAGES, out, 1 << 20, ids),
        )
    ]


def seal(buffer: bytearray, data_end: int, entries: int, publishers: dict[bytes, int]) -> int:
    """Seal with plain values."""
    return chunk.seal_chunk(
        buffer,
        data_end,
        type=ChunkType.USER,
        entries=entries,
        records=entries,
        timestamp_ms=1_700_000_000_000,
        epoch=3,
        first_offset=0,
        bloom=b"",
        publishers=publishers,
        offsets={},
        synced_position=64,
        timestamp_ms_max=1_700_000_000_000,
    )


def chunk_figures(bench: Bench) -> list[Figure]:
    """Chunks sealed, scanned, walked and read."""
    entry = struct.pack(">I", MESSAGE_BYTES) + bytes(MESSAGE_BYTES)
    large = bytearray(48) + entry * MESSAGES + bytes(1000)
    large_end = 48 + len(entry) * MESSAGES
    small = bytearray(48) + entry + bytes(1000)
    small_end = 48 + len(entry)
    run = b"".join(_renumbered(small, small_end, number) for number in range(1000))
    positions = array("q", [0]) * (1000 * SCAN_FIELDS)
    seal(large, large_end, MESSAGES, {})
    return [
        bench.measure("seal_chunk, 1 entry", 1, "chunk", lambda: seal(small, small_end, 1, {})),
        bench.measure(
            "seal_chunk, 1 entry, 1 publisher",
            1,
            "chunk",
            lambda: seal(small, small_end, 1, {b"producer": 7}),
        ),
        bench.measure("seal_chunk, 1,000 entries", 1, "chunk", lambda: seal(large, large_end, MESSAGES, {})),
        bench.measure("read_chunk, 1,000 entries", 1, "chunk", lambda: chunk.read_chunk(large, 0)),
        bench.measure(
            "walk_entries", MESSAGES, "entry", lambda: walk_entries(large, 48, large_end, MESSAGES)
        ),
        bench.measure("scan_chunks", 1000, "chunk", lambda: scan_chunks(run, 0, len(run), 0, positions)),
    ]


def _renumbered(buffer: bytearray, data_end: int, first_offset: int) -> bytes:
    total = seal(buffer, data_end, 1, {})
    struct.pack_into(">Q", buffer, 24, first_offset)  # the scan looks at no CRC
    return bytes(buffer[:total])


def murmur_figures(bench: Bench) -> list[Figure]:
    """Keys hashed."""
    return [
        bench.measure(f"murmur3_32, {size} bytes", 1, "key", lambda key=bytes(size): murmur3_32(key))  # type: ignore[misc]
        for size in (8, 36)
    ]
