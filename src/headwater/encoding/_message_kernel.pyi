from types import EllipsisType
from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Comparable: TypeAlias = bool | int | float | str | EllipsisType | None

COMPILED: bool
OTHER: EllipsisType

def map_value(buffer: _Readable, start: int, end: int, section: int, key: bytes) -> _Comparable: ...
def list_value(buffer: _Readable, start: int, end: int, section: int, index: int) -> _Comparable: ...
def list_position(buffer: _Readable, start: int, end: int, section: int, index: int) -> int: ...
