"""What the kernels and the sealing of a chunk cost, with a loop in C beside them."""

from __future__ import annotations

import ctypes
import functools
import itertools
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
from headwater.encoding._amqp_kernel import join_dispositions, scan_transfers, skim_entries
from headwater.encoding._hash_kernel import hash_spans, murmur3_32
from headwater.encoding._kernel import (
    SCAN_FIELDS,
    filter_values,
    gather_published,
    scan_chunks,
    walk_entries,
)
from headwater.encoding._key_kernel import find_annotations, sort_spans
from headwater.encoding._span_kernel import SPAN_FIELDS, gather_spans, write_transfers
from headwater.encoding.amqp_message import data_section
from headwater.encoding.chunk import ChunkType
from headwater.encoding.delivery_annotations import annotations_before_offset, offset_digits

__all__ = ["run"]

ROUNDS = 60
ROUND_SECONDS = 0.01
MESSAGES = 1_000
MESSAGE_BYTES = 100
AIM_M_PER_S = 150.0
READ_AIM_NS = 50
WRITE_AIM_NS = 30
PARTITIONS = 8
GROUP_KEY = b"event-streams-group-key"


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
    return [
        *gather_figures(bench),
        *chunk_figures(bench),
        *transfer_figures(bench),
        *murmur_figures(bench),
    ]


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


def transfer_figures(bench: Bench) -> list[Figure]:
    """AMQP transfers into chunk data and back, and dispositions."""
    message = data_section(bytes(MESSAGE_BYTES))
    annotated = b"\0\x53\x70\xc0\x02\x01\x41\0\x53\x71\xc1\x07\x02\xa3\x01k\xa1\x01v" + message
    accepted = b"\x40\x41\0\x53\x24\x45"
    settling = b"".join(_frame(b"\0\x53\x15\xc0\x0d\x05\x41" + _id(n) + accepted) for n in range(MESSAGES))
    data = struct.pack(">I", len(message)) + message
    data *= MESSAGES
    spans, out = array("q", bytes(8 * SPAN_FIELDS * MESSAGES)), bytearray(1 << 20)
    annotations = annotations_before_offset(1_700_000_000_000, "orders-0") + offset_digits(0)

    def send() -> None:
        skim_entries(data, 0, len(data), MESSAGES, spans)
        write_transfers(data, spans, 0, MESSAGES, out, 0, len(out), 1 << 16, 1, 0, 0, False, annotations)

    figures = [
        _within(READ_AIM_NS, bench.measure(f"scan_transfers{name}", MESSAGES, "message", _scan(sent, spans)))
        for name, sent in (("", message), (", header and delivery annotations", annotated))
    ]
    transfers = _transfers(message)
    _scan(message, spans)()
    gather = bench.measure(
        "gather_spans",
        MESSAGES,
        "message",
        lambda: gather_spans(transfers, spans, 0, MESSAGES, 1 << 20, out, 48, len(out), 65_535),
    )
    write = bench.measure("skim_entries and write_transfers, annotations", MESSAGES, "message", send)
    join = bench.measure(
        "join_dispositions", MESSAGES, "frame", lambda: join_dispositions(settling, 0, len(settling), 512)
    )
    return [*figures, gather, _within(WRITE_AIM_NS, write), join, *_routing_figures(bench)]


def _routing_figures(bench: Bench) -> list[Figure]:
    """Group keys of a run of messages, what partitions they are for, and the run in that order."""
    body = data_section(bytes(MESSAGE_BYTES))
    key = b"\xa3\x17event-streams-group-key\xa1\x0fcustomer-%06d"
    keyed = [b"\0\x53\x72\xc1\x2b\x02" + key % number + body for number in range(MESSAGES)]
    found, partitions = array("q", bytes(16 * MESSAGES)), array("q", bytes(8 * MESSAGES))
    in_order, numbers = array("q", bytes(8 * SPAN_FIELDS * MESSAGES)), array("q", bytes(8 * MESSAGES))
    buffer, spans = _run_of(keyed)
    find = functools.partial(
        find_annotations, first=0, count=MESSAGES, section=0x72, name=GROUP_KEY, found=found
    )

    def sort() -> None:
        hash_spans(buffer, found, MESSAGES, PARTITIONS, partitions)
        counts = array("q", bytes(8 * PARTITIONS))
        sort_spans(spans, 0, MESSAGES, partitions, counts, in_order, numbers)

    without = _run_of([body] * MESSAGES)
    return [
        bench.measure("find_annotations, none", MESSAGES, "message", lambda: find(*without)),
        bench.measure("find_annotations, a group key", MESSAGES, "message", lambda: find(buffer, spans)),
        bench.measure("hash_spans and sort_spans", MESSAGES, "message", sort),
    ]


def _run_of(messages: list[bytes]) -> tuple[bytes, array[int]]:
    """Messages one behind the other, and their spans."""
    ends = list(itertools.accumulate(map(len, messages)))
    starts = [0, *ends[:-1]]
    fields = zip(starts, starts, starts, ends, strict=True)
    return b"".join(messages), array("q", itertools.chain.from_iterable(fields))


def _within(aim_ns: int, figure: Figure) -> Figure:
    note = f"{1000 / figure.median:.0f} ns each"
    return msgspec.structs.replace(figure, yardstick=note, aim=at_least(round(1000 / aim_ns, 1)))


def _scan(message: bytes, spans: array[int]) -> Callable[[], object]:
    """A call that reads transfers of the message, all of them."""
    transfers = _transfers(message)

    def scan() -> None:
        found, _, _ = scan_transfers(transfers, 0, len(transfers), 1 << 16, 1, 0, 0, False, 0, spans)
        if found != MESSAGES:
            raise ValueError(f"{found} of {MESSAGES} transfers were found")

    return scan


def _transfers(message: bytes) -> bytes:
    """Transfers of one link, as most clients encode them."""
    list_head = b"\0\x53\x14\xc0\x0f\x05\x43"
    heads = (list_head + _id(n) + b"\xa0\x04" + n.to_bytes(4, "big") + b"\x43\x42" for n in range(MESSAGES))
    return b"".join(_frame(head + message) for head in heads)


def _id(number: int) -> bytes:
    return b"\x70" + number.to_bytes(4, "big")


def _frame(body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 1) + body


def murmur_figures(bench: Bench) -> list[Figure]:
    """Keys hashed."""
    return [
        bench.measure(f"murmur3_32, {size} bytes", 1, "key", lambda key=bytes(size): murmur3_32(key))  # type: ignore[misc]
        for size in (8, 36)
    ]
