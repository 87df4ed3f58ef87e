"""AMQP 1.0 part 4, section 4.5: the coordinator, known so that a link to it can be refused.

Transactions do not exist here: without a coordinator there is no declare, and the states `declared` and
`transactional-state` stay described values that no delivery may have.
"""

from __future__ import annotations

import msgspec

from headwater.encoding.amqp_composite import Composite
from headwater.encoding.amqp_fields import capabilities
from headwater.encoding.amqp_types import Symbol

__all__ = ["COORDINATOR", "Coordinator"]


class Coordinator(msgspec.Struct, frozen=True, gc=False):
    """The target of a link that controls transactions (4.5.1)."""

    capabilities: tuple[Symbol, ...] = ()


COORDINATOR = Composite(0x30, "coordinator", Coordinator, capabilities=capabilities)
