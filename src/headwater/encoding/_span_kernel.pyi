from array import array
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Writable: TypeAlias = bytearray | memoryview
_Int64s: TypeAlias = array[int] | memoryview[int]

COMPILED: bool
FRAME_HEAD_BYTES: int
SPAN_FIELDS: int

def gather_spans(
    buffer: _Readable,
    spans: _Int64s,
    first: int,
    count: int,
    entry_bytes_max: int,
    out: _Writable,
    out_start: int,
    out_end: int,
    entries_room: int,
) -> tuple[int, int]: ...
def write_transfers(
    data: _Readable,
    spans: _Int64s,
    first: int,
    count: int,
    out: _Writable,
    out_start: int,
    out_end: int,
    frame_size_max: int,
    channel: int,
    handle: int,
    delivery_id: int,
    settled: bool,
    annotations: bytes,
) -> tuple[int, int]: ...
