from collections.abc import Sequence
from typing import TypeAlias

_Buffer: TypeAlias = bytes | bytearray | memoryview

COMPILED: bool

def write_and_sync(fd: int, position: int, buffers: Sequence[_Buffer], sync: bool) -> int: ...
