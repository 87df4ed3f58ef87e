from array import array
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Int64s: TypeAlias = array[int] | memoryview[int]

COMPILED: bool
NONE: int
UNREADABLE: int

def find_annotations(
    buffer: _Readable,
    spans: _Int64s,
    first: int,
    count: int,
    section: int,
    name: bytes,
    found: _Int64s,
) -> tuple[int, int]: ...
def sort_spans(
    spans: _Int64s,
    first: int,
    count: int,
    partitions: _Int64s,
    counts: _Int64s,
    sorted_spans: _Int64s,
    order: _Int64s,
) -> int: ...
