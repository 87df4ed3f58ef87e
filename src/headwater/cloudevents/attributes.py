"""CloudEvents 1.0: the attributes of an event by their names, whatever holds them."""

from __future__ import annotations

from typing import Protocol, TypeAlias

__all__ = ["AttributeValue", "Attributes"]

AttributeValue: TypeAlias = bool | int | str | bytes
"""Boolean, Integer, all that is text, and Binary.

A URI, a URI-reference and a Timestamp are text as CloudEvents writes them, so that they compare as they were sent; what
knows their type gives a subclass of str that says so.
"""


class Attributes(Protocol):
    """What filters ask: an event, one that is stored, or a dict."""

    def get(self, name: str, /) -> AttributeValue | None:
        """The value of an attribute, extensions and datacontenttype too; None if it is not there."""
