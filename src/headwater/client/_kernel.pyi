from array import array
from collections.abc import Sequence
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Int64s: TypeAlias = array[int] | memoryview[int]

COMPILED: bool

def messages_that_fit(
    records: list[bytes],
    start: int,
    end: int,
    filters: list[bytes | None] | None,
    as_data: bool,
    room_bytes: int,
) -> tuple[int, int]: ...
def fill_publish(
    out: bytearray,
    position: int,
    records: list[bytes],
    start: int,
    end: int,
    first_id: int,
    ids: list[int] | None,
    filters: list[bytes | None] | None,
    as_data: bool,
) -> int: ...
def id_runs(ids: _Readable, start: int, end: int) -> list[tuple[int, int]]: ...
def record_spans(records: Sequence[bytes], as_data: bool, spans: _Int64s) -> int: ...
def moved_spans(spans: _Int64s, count: int, base: int, moved: _Int64s) -> None: ...
