"""Stored messages as JSON: CloudEvents as they are, and what is none as an event that says where it lies.

    type    headwater.message            datacontenttype    the content-type of the message, if it has one
    source  /logs/{log}                  data               its body
    id      {partition}-{offset}         time               when it was accepted

What is no AMQP message, or has a body that is no bytes and no text, is shown as its bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

from headwater.cloudevents import amqp_binding, json_format
from headwater.cloudevents.event import CloudEvent, new_event
from headwater.cloudevents.stored import data_of
from headwater.encoding._cloudevents_kernel import MessageAttributes
from headwater.encoding._cloudevents_text_kernel import MEDIA_TYPE, is_allowed, timestamp_text
from headwater.encoding.chunk import ReadableBuffer
from headwater.errors import InvalidCloudEvent

__all__ = ["PLAIN_TYPE", "Shower"]

PLAIN_TYPE = "headwater.message"
_BYTES = "application/octet-stream"


class Shower:
    """Makes JSON of the events of one partition."""

    def __init__(self, log: str, partition_id: str) -> None:
        self._source = f"/logs/{quote(log, safe='')}"
        self._partition_id = partition_id

    def json(self, buffer: ReadableBuffer, start: int, end: int, offset: int, accepted_ms: int) -> bytes:
        """One message, in the JSON format of CloudEvents."""
        return json_format.encode_event(self._event(buffer, start, end, offset, accepted_ms))

    def bytes_json(self, record: bytes, offset: int, accepted_ms: int) -> bytes:
        """The same of what is no AMQP message."""
        return json_format.encode_event(self._plain(record, _BYTES, offset, accepted_ms))

    def _event(
        self, buffer: ReadableBuffer, start: int, end: int, offset: int, accepted_ms: int
    ) -> CloudEvent:
        try:
            return amqp_binding.decode(buffer, start, end)
        except InvalidCloudEvent:
            pass
        try:
            data, content_type = data_of(buffer, start, end), _content_type(buffer, start, end)
        except InvalidCloudEvent:
            data, content_type = bytes(buffer[start:end]), _BYTES
        return self._plain(data, content_type, offset, accepted_ms)

    def _plain(
        self, data: bytes | None, content_type: str | None, offset: int, accepted_ms: int
    ) -> CloudEvent:
        return new_event(
            f"{self._partition_id}-{offset}",
            self._source,
            PLAIN_TYPE,
            data,
            time=timestamp_text(accepted_ms) or datetime.fromtimestamp(0, UTC),
            datacontenttype=content_type,
        )


def _content_type(buffer: ReadableBuffer, start: int, end: int) -> str | None:
    found = MessageAttributes(buffer, start, end).content_type
    if isinstance(found, str) and is_allowed(MEDIA_TYPE, found.encode("utf-8", "replace")):
        return found
    return None
