"""CloudEvents bindings, sections "Content Modes": what a content type says of the message that it stands on."""

from __future__ import annotations

import enum

from headwater.errors import InvalidCloudEvent

__all__ = ["JSON_BATCH_TYPE", "JSON_TYPE", "Mode", "media_type_of", "mode_of", "not_readable"]

JSON_TYPE = "application/cloudevents+json; charset=utf-8"
"""What structured messages are sent as."""
JSON_BATCH_TYPE = "application/cloudevents-batch+json; charset=utf-8"

_PREFIX = "application/cloudevents"


class Mode(enum.Enum):
    """How a message carries what may be an event."""

    BINARY = "binary"
    STRUCTURED = "structured"
    """One event in the JSON format."""
    BATCH = "batch"
    """Any number of events, in any format."""
    OPAQUE = "opaque"
    """One event in a format that is not known here, which is passed on as it is."""


def mode_of(content_type: str | None) -> Mode:
    """The mode that a content type stands for; none is binary mode."""
    if content_type is None or content_type[: len(_PREFIX)].lower() != _PREFIX:
        return Mode.BINARY
    media_type = media_type_of(content_type)
    # The batch comes first: its name begins like the other.
    if media_type.startswith("application/cloudevents-batch"):
        return Mode.BATCH
    return Mode.STRUCTURED if media_type in (_PREFIX, f"{_PREFIX}+json") else Mode.OPAQUE


def media_type_of(content_type: str) -> str:
    """Type and subtype in small letters, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def not_readable(content_type: str | None) -> InvalidCloudEvent:
    """What is raised for an event, or a batch, in a format that is not read there."""
    return InvalidCloudEvent(None, f"is {media_type_of(content_type or '')}, which is not read here")
