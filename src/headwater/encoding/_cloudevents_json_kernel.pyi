from array import array

COMPILED: bool
MEMBERS_MAX: int

def write_events(
    text: bytes,
    position: int,
    count: int,
    key: bytes,
    out: bytearray,
    out_position: int,
    spans: array[int],
    keys: array[int],
    first: int,
) -> tuple[int, int, int]: ...
