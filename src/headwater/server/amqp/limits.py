"""What bounds the AMQP door in time and number; every limit of it has its name here."""

from __future__ import annotations

import msgspec

__all__ = ["SENDING_S_MAX", "Limits"]

SENDING_S_MAX = 0.01
"""So long a link, or the links of a subscription, may be sent to before others have their turn; filters may be slow."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds that all connections of the door share."""

    connections_max: int = 10_000
    """One more is closed at once."""
    sessions_max: int = 256
    """Of one connection, announced as channel-max."""
    links_max: int = 1024
    """Of one session, announced as handle-max."""
    connection_links_max: int = 4096
    """Of one connection; a further one is refused."""
    frame_size_bytes_max: int = 1 << 20
    """What clients may send in one frame; a larger one closes the connection."""
    message_size_bytes_max: int = (1 << 20) - 128
    """What every link announces: a message with its place in a chunk fits into one frame of the stream door."""
    partial_bytes_max: int = 64 << 20
    """What messages of several frames may hold before they are whole, of all connections together."""
    incoming_window: int = 8192
    """Transfer frames that a session may have on their way to us."""
    credit_count: int = 10_000
    """Deliveries that a sender may have on their way to us."""
    websocket_message_bytes_max: int = 4 << 20
    """A larger message of a WebSocket closes it."""
    requests_max: int = 64
    """Requests to `$management` that a connection may have waiting; one more is rejected."""
    request_bytes_max: int = 64 * 1024
    """A larger request is rejected."""
    responses_max: int = 64
    """Responses that may wait for credit on a link; requests beyond them are rejected."""
    responses_bytes_max: int = 64 << 20
    """The same in bytes, of all connections together."""
    information_interval_s: float = 1.0
    """So long a receiver from `$info` waits for its next message, however much credit it gives."""
    idle_timeout_s: float = 60.0
    """A client of which nothing is heard for this long is cut off; it is told half of it."""
    peer_idle_timeout_ms_min: int = 100
    """A client that wants to hear of us more often than every half of this is refused."""
    step_timeout_s: float = 10.0
    """A client that takes longer for a step until it has opened is cut off."""
    failure_delay_s: float = 0.5
    """So long the answer to a wrong password is kept back."""
    close_timeout_s: float = 10.0
    """So long a client may take to answer our close, or to read what was sent before it."""
    stop_timeout_s: float = 2.0
    """So long all clients together may take when the server stops."""
    delivery_bytes_high: int = 1 << 20
    """No more messages while so much waits for the socket of a connection."""
    answer_bytes_max: int = 4 << 20
    """Nothing more is read while so much waits: the client asks and does not read."""
    turn_s_max: float = 0.01
    """A client whose frames take longer goes on after the others."""
    failure_told_every_s: float = 10.0
    """A partition that cannot be read or written is logged once in this time, however often clients try."""
