"""Filters of CloudEvents over stored records: what is no CloudEvent passes none."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cloudevents.filters import Predicate, compile_predicate
from headwater.cloudevents.stored import StoredAttributes
from headwater.encoding._cloudevents_kernel import BINARY, STRUCTURED
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.encoding.event_filter import StoredEvent

__all__ = ["CloudEventFilter"]


class CloudEventFilter:
    """Those events of which a predicate is true."""

    def __init__(self, predicate: Predicate) -> None:
        self._test = compile_predicate(predicate)

    def matching(self, event: StoredEvent, spans: Sequence[int], first: int, count: int) -> list[int]:
        """Which of `count` skimmed entries pass, from the `first` one on; the spans are those of `_span_kernel`."""
        attributes, test, found = StoredAttributes(event.buffer, 0, 0), self._test, []
        for number in range(first, first + count):
            head, _, rest, end = spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)]
            if head < 0:
                continue
            attributes.move(rest, end)
            if attributes.status in (BINARY, STRUCTURED) and test(attributes):
                found.append(number)
        return found
