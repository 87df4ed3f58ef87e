"""Damage that no crash makes: a flipped byte below what is known durable must be found, told, and never cut away."""

from __future__ import annotations

from pathlib import Path
from random import Random

from headwater.encoding.chunk import read_chunk
from headwater.errors import MalformedChunk, MalformedIndex
from headwater.log.index import INDEX_FOOTER_BYTES, IndexFooter
from headwater.log.segment import SEGMENT_HEADER_BYTES, decode_segment_header
from tests.simulation.faulty_files import FaultyFiles
from tests.simulation.model import Damage
from tests.simulation.rig import DATA

__all__ = ["damage_one_byte", "spoil_index"]


def damage_one_byte(files: FaultyFiles, folder: Path, rng: Random) -> Damage | None:
    """Flip a byte that opening must look at; None if the partition has none such."""
    names = [name for name in files.names(folder) if name.endswith(".segment")]
    if not names or any(name.endswith(".journal") for name in files.durable_names(DATA / "journal")):
        return None  # a journal would mend it
    path = folder / names[-1]
    if _is_sealed(files, path) or not files.is_durable(path):
        return None
    targets = _targets(files.read_file(path), path)
    if not targets:
        return None
    start, end, offset = rng.choice(targets)
    position = rng.randrange(start, end)
    files.damage(path, position, 1 << rng.randrange(8))
    return Damage(path, position, offset, files.read_file(path))


def spoil_index(files: FaultyFiles, folder: Path, rng: Random) -> Path | None:
    """Damage or cut an index file of a partition, which is only a cache; None if there is none."""
    names = [name for name in files.names(folder) if name.endswith(".index")]
    if not names:
        return None
    path = folder / rng.choice(names)
    size = files.size_of(path)
    if size and rng.random() < 0.7:
        files.damage(path, rng.randrange(size), 1 << rng.randrange(8))
    else:
        files.cut(path, rng.randint(0, size))
    return path


def _is_sealed(files: FaultyFiles, path: Path) -> bool:
    """Whether the index says that the segment was closed in order, so that nothing of it is read."""
    index = path.with_suffix(".index")
    data = files.read_file(index) if files.exists(index) else b""
    try:
        footer = IndexFooter.decode(data[-INDEX_FOOTER_BYTES:], len(data))
    except MalformedIndex:
        return False
    return footer.segment_bytes == files.size_of(path)


def _targets(data: bytes, path: Path) -> list[tuple[int, int, int]]:
    """Start, end and first offset of chunks behind the last snapshot that a later chunk declares durable."""
    chunks: list[tuple[int, int, int, int, int]] = []
    try:
        salt = decode_segment_header(data[:SEGMENT_HEADER_BYTES], path).salt
        position = SEGMENT_HEADER_BYTES
        while position < len(data):
            header, trailer = read_chunk(data, position, salt)
            end = position + header.total_bytes
            chunks.append((position, end, header.first_offset, header.type, trailer.synced_position))
            position = end
    except MalformedChunk:
        pass  # the tail of a crash
    behind = max((number for number, chunk in enumerate(chunks) if chunk[3] == 2), default=-1) + 1
    return [
        (start, end, offset)
        for number, (start, end, offset, _, _) in enumerate(chunks)
        if number >= behind and any(later[4] > start for later in chunks[number + 1 :])
    ]
