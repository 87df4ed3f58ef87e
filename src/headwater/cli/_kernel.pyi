from array import array
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview

BUCKETS: int
COMPILED: bool

def stamp(
    frame: bytearray, start: int, count: int, stride: int, time_at: int, first_id: int, time_ns: int
) -> None: ...
def scan(
    data: _Readable, start: int, end: int, entries: int, marker: int, now_ns: int, histogram: array[int]
) -> tuple[int, int]: ...
def record(histogram: array[int], microseconds: int, count: int) -> None: ...
