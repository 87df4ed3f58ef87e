"""AMQP 1.0 part 2, section 2.6: links, what is the same for both roles: attaching, detaching, credit."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, ClassVar

import msgspec

from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.faults import EndpointGone
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Attach, Detach, Flow
from headwater.encoding.amqp_types import Symbol

if TYPE_CHECKING:
    from headwater.amqp.session import Session

__all__ = ["Link", "LinkState"]


class LinkState(enum.Enum):
    """Section 2.6.3 and 2.6.6."""

    NEW = "new"
    ATTACH_SENT = "attach sent"
    ATTACH_RECEIVED = "attach received"
    ATTACHED = "attached"
    DETACH_SENT = "detach sent"
    DETACH_RECEIVED = "detach received"
    DETACHED = "detached"


_ATTACHED_BY_PEER = {
    LinkState.NEW: LinkState.ATTACH_RECEIVED,
    LinkState.ATTACH_SENT: LinkState.ATTACHED,
}
"""Of one that was detached before the peer attached, the state stays."""


class Link:
    """Our end of a link."""

    role: ClassVar[Role]

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        self.state = LinkState.NEW
        self.handle = -1
        self.remote_handle = -1
        self.remote: Attach
        """What the peer attached with."""
        self.credit = 0
        """Deliveries that the receiving side has asked for and that were not sent."""
        self.delivery_count = 0
        self.snd_settle_mode = SenderSettleMode.MIXED
        self.rcv_settle_mode = ReceiverSettleMode.FIRST
        self.errant_from = 0
        """The transfer id from which on what comes was sent by a peer that had heard of our detach."""
        self.attach_bytes = 0
        """What its attach costs of `attach_bytes_max`."""
        self.was_broken = False
        """Whether it was detached for a fault of the peer, of which the owner knows already."""

    @property
    def is_attached(self) -> bool:
        """Whether both ends are attached."""
        return self.state is LinkState.ATTACHED

    @property
    def is_detaching(self) -> bool:
        """Whether what the peer still sends is passed over, as we have detached."""
        return self.state is LinkState.DETACH_SENT

    # Attaching

    def attach(
        self,
        source: Source | None,
        target: Target | None,
        *,
        snd_settle_mode: SenderSettleMode = SenderSettleMode.MIXED,
        rcv_settle_mode: ReceiverSettleMode = ReceiverSettleMode.FIRST,
        desired_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
    ) -> None:
        """Attach our end; the peer's answer follows."""
        self.session.attach(self)
        self.snd_settle_mode, self.rcv_settle_mode = snd_settle_mode, rcv_settle_mode
        self.state = LinkState.ATTACH_SENT
        self._write_attach(
            Attach(
                self.name,
                self.handle,
                self.role,
                source=source,
                target=target,
                desired_capabilities=desired_capabilities,
                properties=properties,
            )
        )

    def receive_attach(self, attach: Attach) -> None:
        """The peer attached its end, or answered our attach."""
        self.remote = attach
        self.remote_handle = attach.handle
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = attach.rcv_settle_mode
        self.state = _ATTACHED_BY_PEER.get(self.state, self.state)

    def accept(
        self,
        source: Source | None,
        target: Target | None,
        *,
        offered_capabilities: tuple[Symbol, ...] = (),
        properties: dict[Symbol, object] | None = None,
    ) -> None:
        """Answer the peer's attach with what is granted of it."""
        self._check(LinkState.ATTACH_RECEIVED)
        self._attached()
        self._write_attach(
            Attach(
                self.name,
                self.handle,
                self.role,
                source=source,
                target=target,
                offered_capabilities=offered_capabilities,
                properties=properties,
            )
        )

    def refuse(self, error: ErrorValue) -> None:
        """Answer the peer's attach by one without the terminus that was asked of us, and detach (section 2.6.3)."""
        if self.state is LinkState.ATTACH_RECEIVED:
            self._attached()
            source = None if self.role is Role.SENDER else self.remote.source
            target = self.remote.target if self.role is Role.SENDER else None
            self._write_attach(Attach(self.name, self.handle, self.role, source=source, target=target))
        self.detach(error)

    # Detaching

    def detach(self, error: ErrorValue | None = None, *, is_closed: bool = True) -> None:
        """Detach our end, or answer the peer's detach; once is enough. What is unsettled is forgotten."""
        if self.state is LinkState.ATTACH_RECEIVED:
            self.refuse(error or ErrorValue(Condition.LINK_DETACH_FORCED))
            return
        if self.state not in (LinkState.ATTACH_SENT, LinkState.ATTACHED, LinkState.DETACH_RECEIVED):
            return
        self.session.flush()
        self.session.write(Detach(self.handle, closed=is_closed, error=error))
        if self.state is LinkState.DETACH_RECEIVED:
            self._gone()
        else:
            self.state = LinkState.DETACH_SENT
            self.errant_from = self.session.incoming_end
            self._let_go()

    def receive_detach(self) -> bool:
        """The peer detached its end; whether both are detached now."""
        if self.state is LinkState.DETACH_SENT:
            self._gone()
            return True
        if self.state is LinkState.ATTACH_RECEIVED:
            # Its owner has not answered the attach yet; both answers are due.
            self.refuse(ErrorValue(Condition.LINK_DETACH_FORCED, "the link was detached again"))
            self._gone()
            return True
        self.state = LinkState.DETACH_RECEIVED
        self.cut_short()
        return False

    def drop(self) -> None:
        """The session is gone, and the link with it."""
        self.state = LinkState.DETACHED
        self.credit = 0
        self._let_go()

    # Deliveries

    def holds(self, first: int, end: int) -> bool:
        """Whether something of a range of deliveries is not settled."""
        raise NotImplementedError

    def cut_short(self) -> None:
        """The peer sends and takes nothing more: forget what is only half there."""
        raise NotImplementedError

    # Credit

    def receive_flow(self, flow: Flow) -> None:
        """The peer says where the link stands."""
        raise NotImplementedError

    def described(self, flow: Flow) -> Flow:
        """A flow of the session, with where this link stands."""
        raise NotImplementedError

    # Helpers

    def _initial_delivery_count(self) -> int | None:
        """What our attach says; it is the sender's to say."""
        return None

    def _let_go(self) -> None:
        """Forget all deliveries."""
        raise NotImplementedError

    def _attached(self) -> None:
        self.state = LinkState.ATTACHED
        self.session.connection.has_unflushed(self.session)

    def _gone(self) -> None:
        self.session.release(self)
        self.drop()

    def _check(self, *states: LinkState) -> None:
        if self.state not in states:
            raise EndpointGone(f"link {self.name!r}")

    def _write_attach(self, attach: Attach) -> None:
        """Send what is agreed on besides: settle modes, and what our role has to say."""
        self.session.write(
            msgspec.structs.replace(
                attach,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                initial_delivery_count=self._initial_delivery_count(),
                max_message_size=self.session.connection.limits.message_size_bytes_max or None,
            )
        )
