"""Event Stream Extensions for AMQP, sections 3.1, 4.6, 5.1 and 6: the names that they add."""

from __future__ import annotations

from headwater.encoding.amqp_types import Symbol

__all__ = [
    "EPOCH",
    "EVENT_STREAMS",
    "GROUP",
    "GROUP_KEY",
    "INFORMATION_SUFFIX",
    "PARTITION",
    "PARTITIONS_CHANGED",
    "SOURCE_PARTITION",
    "TARGET_PARTITION",
]

EVENT_STREAMS = Symbol("AMQP_EVENT_STREAMS_V1_0")
"""The capability of a connection that says that all of this is understood."""
PARTITION = Symbol("event-streams-partition")
"""A property of links: the one partition that a link is bound to."""
GROUP = Symbol("event-streams-consumer-group")
"""A property of links: the group in which a receiver consumes."""
EPOCH = Symbol("event-streams-epoch")
"""A property of links: of several receivers of a group, the one with the greatest has the partition."""
TARGET_PARTITION = Symbol("event-streams-target-partition")
"""A delivery annotation: where a message is to go."""
SOURCE_PARTITION = Symbol("event-streams-source-partition")
"""A delivery annotation: which partition a message comes from."""
PARTITIONS_CHANGED = (
    Symbol("event-streams-associated-partitions-changed"),
    Symbol("event-streams-assigned-partitions-changed"),
)
"""A delivery annotation: the partitions that a link has now, and before had others. The text has both names for it; the
first one is sent, and both are read."""
GROUP_KEY = Symbol("event-streams-group-key")
"""A message annotation: messages with the same one go to the same partition."""
INFORMATION_SUFFIX = "/$info"
"""Behind the address of a log: what tells of its partitions."""
