"""Opening a partition: what is on disk, and what of it may be believed (docs/internals/log-format.md, Recovery)."""

from __future__ import annotations

from pathlib import Path

from headwater.encoding.chunk import ChunkType, decode_snapshot
from headwater.errors import LogCorrupt, MalformedChunk, MalformedIndex
from headwater.log.files import Files
from headwater.log.index import (
    INDEX_ENTRY_BYTES,
    INDEX_FOOTER_BYTES,
    Index,
    IndexEntry,
    IndexFooter,
    entry_at,
    is_ordered,
)
from headwater.log.scan import ScannedChunk, SegmentScan
from headwater.log.segment import (
    FOREIGN_SUFFIX,
    INDEX_SUFFIX,
    REMOVED_SUFFIX,
    SEGMENT_HEADER_BYTES,
    Segment,
    check_identity,
    decode_segment_header,
    is_foreign_start,
    read_segment_header,
    segment_offset,
    segment_path,
)
from headwater.log.tracking import Tracking

__all__ = [
    "Recovered",
    "SegmentListing",
    "list_segments",
    "load_index",
    "open_older_segment",
    "recover_partition",
]

_REWRITE_BYTES = 1 << 20
_SNAPSHOTS_TRIED_MAX = 8


class Recovered:
    """What recovery found of a partition."""

    def __init__(self, tracking: Tracking) -> None:
        self.tracking = tracking
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.timestamp_ms_max = 0
        self.synced_position = 0
        self.snapshot_position = SEGMENT_HEADER_BYTES
        self.snapshot_stale = False
        self.cut_bytes = 0
        """What was cut off as tail."""
        self.log_folder_unsynced = False
        """Whether the partition's own folder may have a name that is not durable: the caller syncs the log's once."""
        self.foreign: list[Path] = []
        """Files that are none of ours; they are left alone."""
        self.damage: LogCorrupt | None = None

    def take(self, chunk: ScannedChunk) -> None:
        """Go on behind a valid chunk."""
        header, trailer = chunk.header, chunk.trailer
        self.end_offset = chunk.end_offset
        self.timestamp_ms_max = trailer.timestamp_ms_max
        if header.type == ChunkType.SNAPSHOT:
            self.tracking.restore(*decode_snapshot(chunk.data))
            self.snapshot_position = chunk.position
            self.snapshot_stale = False
        elif trailer.publishers or trailer.offsets:
            self.tracking.replay(trailer.publishers, trailer.offsets, header.timestamp_ms)
            self.snapshot_stale = True


def recover_partition(files: Files, folder: Path, tracking: Tracking) -> Recovered:
    """Bring a partition's folder into order and tell what it holds."""
    found = Recovered(tracking)
    offsets = _segment_offsets(files, folder, found)
    if not offsets and files.exists(folder):
        files.sync_folder(folder)  # what is shown as empty stays so: a removal may be in memory alone
    while offsets:
        path = segment_path(folder, offsets[-1])
        fd = files.open(path, write=True)
        try:
            left = _NewestSegment(files, fd, path, found).recover(lone=len(offsets) == 1 and offsets[0] > 0)
            is_foreign = is_foreign_start(files.read(fd, 0, SEGMENT_HEADER_BYTES))
        finally:
            files.close(fd)
        if left:
            break
        # No confirm depends on it, and the one before it is whole.
        if is_foreign:
            found.foreign.append(path.with_name(path.name + FOREIGN_SUFFIX))
            files.rename(path, found.foreign[-1])
        else:
            found.cut_bytes += files.size_of(path)
            _remove_segment(files, path)
        files.sync_folder(folder)
        offsets.pop()
    found.segments[:0] = [open_older_segment(files, segment_path(folder, offset)) for offset in offsets[:-1]]
    return found


def open_older_segment(files: Files, path: Path) -> Segment:
    """A segment that is complete; a header that cannot be read shows when its chunks are."""
    fd = files.open(path)
    try:
        size = files.size(fd)
        salt = read_segment_header(files, fd, path).salt
    except MalformedChunk:
        salt = 0
    finally:
        files.close(fd)
    offset = segment_offset(path.name)
    assert offset is not None
    return Segment(path, offset, size, salt)


def load_index(files: Files, segment: Segment) -> bytes:
    """All entries of a segment's index that are not pending: from its file, or else from the segment itself."""
    index = segment.index
    try:
        entries, footer = _read_index(files, index.path)
        if index.trusted and len(entries) >= index.written_bytes:
            return entries[: index.written_bytes]
        if footer is not None and _is_index_of(segment, entries, footer):
            index.trust(entries)
            return entries
    except OSError:
        pass
    return _rebuild_index(files, segment)


def _rebuild_index(files: Files, segment: Segment) -> bytes:
    """Read the segment for what its index should hold; up to the first damage, which reads will meet."""
    rebuilt = Index(segment.index.path)
    fd = files.open(segment.path)
    try:
        scan = SegmentScan(files, fd, segment.size, segment.salt)
        for chunk in scan.chunks(SEGMENT_HEADER_BYTES, segment.path, segment.first_offset):
            rebuilt.append(chunk.index_entry())
    except LogCorrupt:
        pass
    finally:
        files.close(fd)
    entries = bytes(rebuilt.pending)
    segment.index = rebuilt
    segment.seal_index(files, 0)
    # What could not be written is pending still, and is added by the caller.
    return entries if rebuilt.trusted else b""


def _read_index(files: Files, path: Path) -> tuple[bytes, IndexFooter | None]:
    """What stands in an index file: whole entries, and the footer if it is sealed and its entries are right."""
    data = files.read_file(path) if files.exists(path) else b""
    try:
        footer = IndexFooter.decode(data[-INDEX_FOOTER_BYTES:], len(data))
        footer.check(data[:-INDEX_FOOTER_BYTES])
    except MalformedIndex:
        return data[: len(data) - len(data) % INDEX_ENTRY_BYTES], None
    return data[:-INDEX_FOOTER_BYTES], footer


def _is_index_of(segment: Segment, entries: bytes, footer: IndexFooter) -> bool:
    """Whether a sealed index is that of this segment, as it is now."""
    if footer.segment_bytes != segment.size or not entries:
        return False
    first = entry_at(entries, 0)
    return (first.first_offset, first.position) == (segment.first_offset, SEGMENT_HEADER_BYTES)


class SegmentListing:
    """What the names in a partition's folder say."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        """Of the segments that count, in order."""
        self.removed: list[Path] = []
        self.overdue: list[Path] = []
        """Segments older than a removed one: a crash came between the renames."""
        self.foreign: list[Path] = []


def list_segments(files: Files, folder: Path) -> SegmentListing:
    """Sort the names in a partition's folder."""
    listing = SegmentListing()
    removed_up_to = -1
    for name in files.names(folder):
        offset = segment_offset(name)
        removed = segment_offset(name.removesuffix(REMOVED_SUFFIX)) if offset is None else None
        if offset is not None:
            listing.offsets.append(offset)
        elif removed is not None:
            listing.removed.append(folder / name)
            removed_up_to = max(removed_up_to, removed)
        elif not name.endswith(INDEX_SUFFIX):
            listing.foreign.append(folder / name)
    listing.overdue = [segment_path(folder, offset) for offset in listing.offsets if offset < removed_up_to]
    listing.offsets = [offset for offset in listing.offsets if offset > removed_up_to]
    return listing


def _segment_offsets(files: Files, folder: Path, found: Recovered) -> list[int]:
    """The first offsets of the segments; finishes a removal that a crash interrupted."""
    listing = list_segments(files, folder)
    found.foreign = listing.foreign
    for path in listing.overdue:
        _remove_segment(files, path)
    if listing.removed:
        files.sync_folder(
            folder
        )  # their new names too: what is unlinked must not come back under the old ones
    for path in listing.removed:
        _remove_segment(files, path)
    return listing.offsets


def _remove_segment(files: Files, path: Path) -> None:
    files.remove(path)
    index = path.with_name(path.name.partition(".")[0] + INDEX_SUFFIX)
    if files.exists(index):
        files.remove(index)


class _NewestSegment:
    """The segment that was being written to."""

    def __init__(self, files: Files, fd: int, path: Path, found: Recovered) -> None:
        self._files = files
        self._fd = fd
        self._found = found
        offset = segment_offset(path.name)
        assert offset is not None
        self._segment = Segment(path, offset, files.size(fd), 0)
        try:
            self._entries, self._footer = _read_index(files, self._segment.index.path)
        except OSError:
            self._entries, self._footer = b"", None
        self._synced = 0
        """Everything before this was durable once, as far as is known by now."""
        footer = self._footer
        # A footer without a snapshot is that of a rebuilt index: it says nothing of syncs.
        if footer is not None and footer.snapshot_position and footer.segment_bytes <= self._segment.size:
            self._synced = footer.segment_bytes

    def recover(self, *, lone: bool) -> bool:
        """Find out what it holds; False if it is cut down to nothing and goes away, which a lone one must not."""
        segment = self._segment
        try:
            header = decode_segment_header(self._files.read(self._fd, 0, SEGMENT_HEADER_BYTES), segment.path)
        except MalformedChunk as error:
            scan = SegmentScan(self._files, self._fd, segment.size, None)
            if not lone and max(self._synced, scan.synced_position_behind(0)) == 0:
                return False
            return self._is_corrupt(0, error.reason)
        try:
            check_identity(header, segment.path)
        except MalformedChunk as error:
            return self._is_corrupt(0, error.reason)
        segment.salt = header.salt
        scan = SegmentScan(self._files, self._fd, segment.size, header.salt)
        return self._restore_closed(scan) or self._restore_scanned(scan, lone=lone)

    def _is_corrupt(self, position: int, reason: str) -> bool:
        segment, found = self._segment, self._found
        found.damage = LogCorrupt(segment.path, position, reason)
        found.end_offset = max(found.end_offset, segment.first_offset)
        segment.size = position
        found.segments = [segment]
        return True

    def _restore_closed(self, scan: SegmentScan) -> bool:
        """Closed in order: the footer of its index and the chunks it names tell everything."""
        footer, segment = self._footer, self._segment
        if footer is None or not footer.snapshot_position or not _is_index_of(segment, self._entries, footer):
            return False
        try:
            last = scan.chunk(entry_at(self._entries, footer.count - 1).position)
            snapshot = scan.chunk(footer.snapshot_position)
        except MalformedChunk:
            return False
        if last.end != segment.size or snapshot.header.type != ChunkType.SNAPSHOT:
            return False
        self._found.take(snapshot)
        self._found.take(last)
        segment.index.trust(self._entries)
        segment.index.sealed = True
        self._found.synced_position = segment.size
        self._found.segments = [segment]
        return True

    def _restore_scanned(self, scan: SegmentScan, *, lone: bool) -> bool:
        """Read it from the last snapshot on, and tell tail from corruption."""
        segment, found = self._segment, self._found
        position, offset = self._start(scan)
        known_position = position if segment.index.written else 0
        reason = None
        while position < segment.size:
            try:
                chunk = scan.chunk(position)
                if chunk.header.first_offset != offset:
                    raise MalformedChunk(
                        position, f"offset {chunk.header.first_offset} where {offset} is due"
                    )
            except MalformedChunk as error:
                reason = error.reason
                break
            found.take(chunk)
            if position != known_position:
                segment.index.append(chunk.index_entry())
            self._synced = max(self._synced, chunk.trailer.synced_position)
            position, offset = chunk.end, chunk.end_offset
        if reason is not None:
            if max(self._synced, scan.synced_position_behind(position + 1)) > position:
                return self._is_corrupt(position, reason)
            found.cut_bytes += segment.size - position
        if position == SEGMENT_HEADER_BYTES:
            return lone and self._is_corrupt(position, reason or "it has no snapshot")
        self._believe(position)
        return True

    def _start(self, scan: SegmentScan) -> tuple[int, int]:
        """Position and offset to read from: the last valid snapshot that the index names, else the first chunk."""
        segment = self._segment
        number = self._last_snapshot(scan) if is_ordered(self._entries) else 0
        # The snapshot's own entry stays: it was checked, and the next recovery must find it, too.
        kept = self._entries[: (number + 1) * INDEX_ENTRY_BYTES] if number else b""
        segment.index.trust(kept)
        if self._entries or self._footer is not None:
            # What stands behind these entries must not come up again as if it belonged to them.
            fd = self._files.open(segment.index.path, write=True)
            try:
                self._files.truncate(fd, len(kept))
                self._files.sync(fd)
            finally:
                self._files.close(fd)
        if not number:
            return SEGMENT_HEADER_BYTES, segment.first_offset
        entry = entry_at(self._entries, number)
        return entry.position, entry.first_offset

    def _last_snapshot(self, scan: SegmentScan) -> int:
        """The number of its entry; 0, which is the first chunk, if there is none."""
        tried = 0
        for number in reversed(range(1, len(self._entries) // INDEX_ENTRY_BYTES)):
            entry = entry_at(self._entries, number)
            if entry.type == ChunkType.SNAPSHOT:
                if _is_at(scan, entry):
                    return number
                tried += 1
                if tried == _SNAPSHOTS_TRIED_MAX:
                    break
        return 0

    def _believe(self, end: int) -> None:
        """Cut the tail, and write again what may be in memory alone, names too; then all that remains is durable."""
        segment = self._segment
        if end < segment.size:
            self._files.truncate(self._fd, end)
        for position in range(self._synced, end, _REWRITE_BYTES):
            data = self._files.read(self._fd, position, min(_REWRITE_BYTES, end - position))
            self._files.write(self._fd, position, data)
        self._files.sync(self._fd)
        self._files.sync_folder(segment.path.parent)
        self._found.log_folder_unsynced = True
        segment.size = end
        self._found.synced_position = end
        self._found.segments = [segment]


def _is_at(scan: SegmentScan, entry: IndexEntry) -> bool:
    """Whether the chunk that an index entry names is there."""
    if entry.position >= scan.size:
        return False
    try:
        return scan.chunk(entry.position).index_entry() == entry
    except MalformedChunk:
        return False
