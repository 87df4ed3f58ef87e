"""AMQP 1.0 part 2, section 2.6.7: credit for senders, as long as there is room for what it brings."""

from __future__ import annotations

from collections.abc import Callable

from headwater.amqp.receiver_link import ReceiverLink
from headwater.server.amqp.link_owner import LinkOwner

__all__ = ["CreditGiver"]


class CreditGiver:
    """Gives a link its credit again when half of it is used."""

    def __init__(self, link: ReceiverLink, owner: LinkOwner, has_room: Callable[[], bool]) -> None:
        self._link = link
        self._owner = owner
        self._has_room = has_room
        self._is_stopped = False
        self._is_waiting = False

    def give(self) -> None:
        """Give credit if some is due; without room, later."""
        full = self._owner.credit_count
        if self._is_stopped or 2 * self._link.credit > full:
            return
        if self._has_room():
            self._link.grant(full)
        elif not self._is_waiting:
            self._is_waiting = True
            self._owner.call_when_room(self._room_again)

    def stop(self) -> None:
        """The link is gone."""
        self._is_stopped = True

    def _room_again(self) -> None:
        self._is_waiting = False
        self.give()
        self._owner.answered()
