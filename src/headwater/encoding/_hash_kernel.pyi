from typing import TypeAlias

_Readable: TypeAlias = bytes | bytearray | memoryview
_Writable: TypeAlias = bytearray | memoryview

COMPILED: bool

def murmur3_32(data: _Readable, seed: int = 104729) -> int: ...
def bloom_add(bloom: _Writable, value: _Readable) -> None: ...
def bloom_may_contain(bloom: _Readable, value: _Readable) -> bool: ...
