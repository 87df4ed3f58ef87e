from collections.abc import Sequence

COMPILED: bool
PART_CHARACTERS_MAX: int

class PartFinder:
    def __init__(self, part: Sequence[str | None]) -> None: ...
    def find(self, text: str, start: int, end: int) -> int: ...
