"""Sequences of well-formed AMQP frames out of any bytes: each byte chooses what comes next, or what is in it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.amqp.definitions import Condition, ErrorValue, ReceiverSettleMode, Role, SenderSettleMode
from headwater.amqp.frames import EMPTY_FRAME, encode_frame
from headwater.amqp.messaging import Accepted, DeliveryState, Modified, Received, Rejected, Source, Target
from headwater.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_types import Described, Symbol, Ulong

__all__ = ["frames_of"]

_NUMBERS = (0, 0, 1, 1, 2, 2, 3, 4, 5, 9, 17, 255, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
_STATES: tuple[DeliveryState | None, ...] = (
    None,
    Accepted(),
    Received(1, 2),
    Rejected(ErrorValue(Condition.INTERNAL_ERROR)),
    Modified(True),
    Described(Ulong(0x34), [b"transaction", None]),
)
_BODY = b"\x00\x53\x75\xa0\x20" + bytes(range(32))


class _Choices:
    """Bytes, taken one by one; 0 when there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self) -> int:
        return _NUMBERS[self.byte() % len(_NUMBERS)]

    def small(self) -> int:
        """For handles and channels, which mostly are in use."""
        return (0, 0, 0, 1, 1, 2, 3, 4)[self.byte() % 8]

    def flag(self) -> bool:
        return self.byte() % 4 == 3

    def maybe(self, value: int) -> int | None:
        return None if self.flag() else value


def frames_of(data: bytes) -> Iterator[bytes]:
    """The frames that these bytes choose."""
    choices = _Choices(data)
    next_id = 0
    while not choices.is_over:
        kind = choices.byte() % 16
        channel = choices.small() if choices.byte() % 32 == 31 else 0
        if kind == 0:
            yield EMPTY_FRAME
        elif kind < 7 or (kind > 13 and not choices.flag()):
            yield _transfer(choices, channel, next_id)
            next_id = (next_id + 1) % 2**32
        else:
            yield encode_frame(channel, _performative(kind, choices))


def _transfer(choices: _Choices, channel: int, next_id: int) -> bytes:
    handle = choices.small()
    form = choices.byte() % 8
    if form < 3:
        said = Transfer(handle, next_id, b"tag", settled=form == 0)
    elif form == 3:
        said = Transfer(handle, None, more=choices.flag())
    else:
        said = Transfer(
            handle,
            choices.maybe(next_id if choices.flag() else choices.number()),
            b"t" * (choices.byte() % 36) if choices.flag() else b"tag",
            choices.maybe(choices.number()),
            (None, True, False)[choices.byte() % 3],
            choices.flag(),
            (None, ReceiverSettleMode.FIRST, ReceiverSettleMode.SECOND)[choices.byte() % 3],
            _STATES[choices.byte() % len(_STATES)],
            choices.flag(),
            choices.flag(),
        )
    return encode_frame(channel, said, (_BODY, b"", _BODY * 8, _BODY * 20)[choices.byte() % 4])


def _performative(kind: int, choices: _Choices) -> Performative:
    match kind:
        case 7 | 8:
            return _attach(choices)
        case 9 | 10:
            return _flow(choices)
        case 11 | 12:
            role = Role.SENDER if choices.flag() else Role.RECEIVER
            last = choices.maybe(choices.number())
            state = _STATES[choices.byte() % len(_STATES)]
            return Disposition(role, choices.number(), last, not choices.flag(), state)
        case 13:
            return Detach(choices.small(), choices.flag())
        case 14:
            window = choices.number()
            return Begin(
                choices.maybe(0) if choices.flag() else None, choices.number(), window, 9, choices.number()
            )
        case _:
            which = choices.byte() % 8
            return End() if which < 4 else Close() if which == 4 else Open("peer", max_frame_size=512)


def _attach(choices: _Choices) -> Attach:
    role = Role.SENDER if choices.flag() else Role.RECEIVER
    return Attach(
        ("a", "b", "refused", "n" * 300)[choices.byte() % 4],
        choices.small(),
        role,
        SenderSettleMode(choices.byte() % 3),
        ReceiverSettleMode(choices.byte() % 2),
        (Source("log"), None, Described(Symbol("x"), 1))[choices.byte() % 3],
        (Target("log"), None, Coordinator())[choices.byte() % 3],
        initial_delivery_count=choices.maybe(choices.number()),
        max_message_size=choices.maybe(choices.number()),
    )


def _flow(choices: _Choices) -> Flow:
    return Flow(
        choices.maybe(choices.number()),
        choices.number(),
        choices.number(),
        choices.number(),
        choices.maybe(choices.small()),
        choices.maybe(choices.number()),
        choices.maybe(choices.number()),
        drain=choices.flag(),
        echo=choices.flag(),
    )
