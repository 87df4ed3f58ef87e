"""How the texts of expressions differ: the SQL filters of Event Streams and Filter Expressions, and JMS selectors.

What a name means in which section of a message is the same for all; a dialect says which sections its names may begin
with, and what a name without one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.encoding.expression import Section

__all__ = [
    "EVENT_STREAMS_SQL",
    "FIELD_INDEXES",
    "FILTER_EXPRESSIONS_SQL",
    "JMS_SELECTOR",
    "SECTION_NAMES",
    "Dialect",
]

FIELD_INDEXES: Mapping[Section, Mapping[str, int]] = {
    Section.HEADER: {
        name: index
        for index, name in enumerate(("durable", "priority", "ttl", "first-acquirer", "delivery-count"))
    },
    Section.PROPERTIES: {
        name: index
        for index, name in enumerate(
            (
                "message-id",
                "user-id",
                "to",
                "subject",
                "reply-to",
                "correlation-id",
                "content-type",
                "content-encoding",
                "absolute-expiry-time",
                "creation-time",
                "group-id",
                "group-sequence",
                "reply-to-group-id",
            )
        )
    },
}
"""Where in its list a field of a section stands."""

SECTION_NAMES: Mapping[Section, frozenset[str]] = {
    Section.HEADER: frozenset(FIELD_INDEXES[Section.HEADER]),
    Section.PROPERTIES: frozenset(FIELD_INDEXES[Section.PROPERTIES]),
    Section.DELIVERY_ANNOTATIONS: frozenset(
        (
            "event-streams-offset",
            "event-streams-timestamp",
            "event-streams-source-partition",
        )
    ),
    Section.JMS: frozenset(("message-id", "correlation-id", "delivery-mode", "user-id", "delivery-count")),
    Section.EVENT_HUB: frozenset(("x-opt-offset", "x-opt-sequence-number", "x-opt-enqueued-time")),
}
"""The fields of sections that have no others; an underscore in the text stands for a hyphen, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """What is said in one way here and in another there."""

    sections: Mapping[str, tuple[Section, ...]]
    """What may stand before a dot, and where the name behind it is looked for, in this order."""
    bare_section: Section | None
    """Where a name without a section is looked for; without one there must be a section."""
    bare_names: Mapping[str, tuple[Section, str]] = field(default_factory=dict)
    """Such names that mean something else."""
    refused_prefix: str | None = None
    """What all other such names must not begin with."""
    string_quotes: str = "'"
    name_quotes: tuple[str, str] | None = None
    """What stands around a name of any characters."""
    calls: Mapping[str, tuple[Section, str]] = field(default_factory=dict)
    """Functions without arguments, and what they read."""
    operators: frozenset[str] = frozenset()
    """Beyond those that all have."""
    has_java_numbers: bool = False
    """Whether 0x1F, 017, 5L and 5.0f are numbers."""
    empty_selects_all: bool = False


_MESSAGE_SECTIONS = {
    "h": (Section.HEADER,),
    "header": (Section.HEADER,),
    "d": (Section.DELIVERY_ANNOTATIONS,),
    "delivery_annotations": (Section.DELIVERY_ANNOTATIONS,),
    "delivery-annotations": (Section.DELIVERY_ANNOTATIONS,),
    "m": (Section.MESSAGE_ANNOTATIONS,),
    "message_annotations": (Section.MESSAGE_ANNOTATIONS,),
    "message-annotations": (Section.MESSAGE_ANNOTATIONS,),
    "p": (Section.PROPERTIES,),
    "properties": (Section.PROPERTIES,),
    "a": (Section.APPLICATION_PROPERTIES,),
    "application_properties": (Section.APPLICATION_PROPERTIES,),
    "application-properties": (Section.APPLICATION_PROPERTIES,),
}

EVENT_STREAMS_SQL = Dialect(
    sections=_MESSAGE_SECTIONS,
    bare_section=None,
    string_quotes="'\"",
    name_quotes=("[", "]"),
    operators=frozenset(("!=", "%")),
)

FILTER_EXPRESSIONS_SQL = Dialect(
    sections=_MESSAGE_SECTIONS,
    bare_section=Section.APPLICATION_PROPERTIES,
    string_quotes="'\"",
    name_quotes=("[", "]"),
    calls={"UTC": (Section.CLOCK, "UTC")},
    operators=frozenset(("!=", "%")),
)

JMS_SELECTOR = Dialect(
    sections={
        **_MESSAGE_SECTIONS,
        # What clients of Qpid and Event Hubs make of the names of JMS before they send a selector.
        "amqp": (Section.HEADER, Section.PROPERTIES, Section.JMS),
        "amqp.annotation": (Section.EVENT_HUB, Section.MESSAGE_ANNOTATIONS),
    },
    bare_section=Section.APPLICATION_PROPERTIES,
    bare_names={
        "JMSMessageID": (Section.JMS, "message-id"),
        "JMSCorrelationID": (Section.JMS, "correlation-id"),
        "JMSDeliveryMode": (Section.JMS, "delivery-mode"),
        "JMSPriority": (Section.HEADER, "priority"),
        "JMSTimestamp": (Section.PROPERTIES, "creation-time"),
        "JMSType": (Section.PROPERTIES, "subject"),
        "JMSXGroupID": (Section.PROPERTIES, "group-id"),
        "JMSXGroupSeq": (Section.PROPERTIES, "group-sequence"),
        "JMSXUserID": (Section.JMS, "user-id"),
        "JMSXDeliveryCount": (Section.JMS, "delivery-count"),
    },
    refused_prefix="JMS",
    name_quotes=('"', '"'),
    has_java_numbers=True,
    empty_selects_all=True,
)
