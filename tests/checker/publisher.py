"""A publisher of the stream door: named ones go on behind what the server says it has."""

from __future__ import annotations

from headwater.client._kernel import id_runs
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import HeadwaterError
from headwater.streams import commands as c
from tests.checker.history import SequenceTold, now
from tests.checker.link import Link, StreamClient
from tests.checker.publishing import PublishingClient

__all__ = ["PublisherClient"]

CUTS_WITHIN_FRAME = 0.5


class PublisherClient(PublishingClient[Link], StreamClient):
    """Frames of messages or of sub-batches, with filter values or without."""

    _wire_id = 0

    async def begin(self) -> None:
        reference = self.publisher.reference
        self._wire_id = await self.link.declare_publisher(self, reference)
        if reference is not None:
            sequence = await self.link.publisher_sequence(reference, self.stream)
            self.record(SequenceTold(self.who, now(), self.attempt, sequence))
            self.next_id = sequence + 1

    async def send(self, ids: range, *, is_cut: bool) -> None:
        publisher = self.publisher
        frame = self.place.payloads.frame(
            self._wire_id,
            publisher.number,
            self.attempt,
            ids,
            filters=publisher.filters,
            sub_batch=publisher.sub_batch,
        )
        if is_cut and self.rng.random() < CUTS_WITHIN_FRAME:
            await self.cut_within(self.link, frame)
            return
        await self.link.publish_frame(frame)
        if is_cut:
            self.cut(self.link, "cut behind a frame")

    # What the connection tells

    def confirmed(self, event: c.PublishConfirm, buffer: ReadableBuffer) -> None:
        self.note_confirmed(id_runs(buffer, event.start, event.end))

    def refused(self, event: c.PublishError) -> None:
        ids = tuple(error.publishing_id for error in event.publishing_errors)
        self.note_refused(ids, event.publishing_errors[0].code)

    def ended(self, error: HeadwaterError) -> None:
        self.has_ended = True
        self.look_again()
