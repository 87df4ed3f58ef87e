from array import array
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Writable: TypeAlias = bytearray | memoryview
_Int64s: TypeAlias = array[int] | memoryview[int]

COMPILED: bool
UNNAMED: int
NOTHING_PUBLISHED: int
SCAN_FIELDS: int

def new_buffer(size: int) -> bytearray: ...
def gather_published(
    body: _Readable,
    start: int,
    end: int,
    count: int,
    filtered: bool,
    last_sequence: int,
    out: _Writable,
    out_start: int,
    out_end: int,
    entries_room: int,
    ids: _Writable,
    ids_start: int,
) -> tuple[int, int, int, int, int, int]: ...
def join_published(
    buffer: bytearray, start: int, first_end: int, end: int, count: int, publisher_id: int
) -> tuple[int, int, int]: ...
def filter_values(body: _Readable, start: int, end: int, count: int) -> list[bytes | None]: ...
def walk_entries(data: _Readable, start: int, end: int, count: int) -> tuple[int, int]: ...
def walk_records(data: _Readable, start: int, end: int, count: int) -> int: ...
def pass_entries(
    data: _Readable, start: int, end: int, count: int, records_max: int
) -> tuple[int, int, int]: ...
def entry_spans(data: _Readable, start: int, end: int, count: int) -> list[tuple[int, int, int, int]]: ...
def scan_chunks(
    buffer: _Readable, start: int, end: int, expected_offset: int, positions: _Int64s
) -> tuple[int, int, int, bool]: ...
