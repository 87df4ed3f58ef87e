"""What bounds the stream door in time and number; every limit of it has its name here."""

from __future__ import annotations

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True):
    """Bounds that all connections of a door share."""

    connections_max: int = 10_000
    """One more is closed at once."""
    frame_size_bytes_max: int = 1 << 20
    """What is proposed to clients; a larger frame of theirs closes the connection."""
    heartbeat_s: int = 60
    """What is proposed to clients; 0 is none."""
    step_timeout_s: float = 10.0
    """A client that takes longer for a step of the handshake is cut off."""
    failure_delay_s: float = 0.5
    """So long the answer to a wrong password is kept back."""
    close_timeout_s: float = 10.0
    """So long a client may take to answer a Close, or to read what was sent before one."""
    forced_close_timeout_s: float = 1.0
    """So long a client may take to answer a Close that an operator asked for."""
    consumer_update_timeout_s: float = 60.0
    """A single active consumer that takes longer to answer a ConsumerUpdate loses its connection."""
    stop_timeout_s: float = 2.0
    """So long all clients together may take when the server stops."""
    delivery_bytes_high: int = 1 << 18
    """No more chunks while so much waits for the socket of a connection; one chunk may stand on top of it."""
    answer_bytes_max: int = 4 << 20
    """No more commands are taken while so much waits: the client asks and does not read."""
    commands_per_write: int = 16
    """After so many commands their answers are handed to the socket, and counted."""
    turn_s_max: float = 0.01
    """A client whose commands take longer goes on after the others."""
    failure_told_every_s: float = 10.0
    """A partition that cannot be read or written is logged once in this time, however often clients try."""
