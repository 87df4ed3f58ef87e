from array import array
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Int64s: TypeAlias = array[int] | memoryview[int]

COMPILED: bool

def peek_transfer(
    buffer: _Readable, start: int, end: int, frame_size_max: int
) -> tuple[int, int, int, bool] | None: ...
def scan_transfers(
    buffer: _Readable,
    start: int,
    end: int,
    frame_size_max: int,
    channel: int,
    handle: int,
    delivery_id: int,
    settled: bool,
    message_size_max: int,
    spans: _Int64s,
) -> tuple[int, int, int]: ...
def skim_message(buffer: _Readable, start: int, end: int) -> tuple[bool, int, int]: ...
def skim_entries(data: _Readable, start: int, end: int, count: int, spans: _Int64s) -> tuple[int, int]: ...
def join_dispositions(
    buffer: _Readable, start: int, end: int, frame_size_max: int
) -> tuple[int, int, int, bool, int, int, bool, bool] | None: ...
