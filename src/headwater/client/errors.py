"""What can go wrong for a client: the server is not there, leaves, refuses, is silent, or sends what cannot be."""

from __future__ import annotations

from headwater.errors import CallerError, HeadwaterError, MalformedFrame, PeerError
from headwater.streams.commands import ResponseCode

__all__ = [
    "AuthenticationFailed",
    "ClosedByPeer",
    "ConnectionLost",
    "DamagedChunk",
    "HttpRefused",
    "IdsNotRising",
    "MessageTooLarge",
    "MessagesRefused",
    "NoIdLeft",
    "PeerSilent",
    "PeerUnreachable",
    "RequestRefused",
    "RequestTimedOut",
    "StreamGone",
    "TooMuchDelivered",
    "UnpackedTooLarge",
    "says",
]

_IDS_SHOWN_MAX = 5

_WORDS = {
    ResponseCode.STREAM_DOES_NOT_EXIST: ("there is no such stream", "create it, or check name and vhost"),
    ResponseCode.SUBSCRIPTION_ID_ALREADY_EXISTS: ("the subscription id is taken", "use another one"),
    ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST: ("there is no such subscription", "subscribe again"),
    ResponseCode.STREAM_ALREADY_EXISTS: ("it exists already", "choose another name, or delete it first"),
    ResponseCode.STREAM_NOT_AVAILABLE: ("the stream is not available", "look at the server's log, try again"),
    ResponseCode.SASL_MECHANISM_NOT_SUPPORTED: ("it does not take this mechanism", "choose another one"),
    ResponseCode.AUTHENTICATION_FAILURE: ("wrong user or password", "check both"),
    ResponseCode.SASL_ERROR: ("the authentication went wrong", "look at the server's log"),
    ResponseCode.SASL_AUTHENTICATION_FAILURE_LOOPBACK: (
        "this user may come from the server's own machine alone",
        "use another user",
    ),
    ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE: (
        "there is no such vhost, or the user may not enter it",
        "check the vhost, or give the user a permission on it",
    ),
    ResponseCode.UNKNOWN_FRAME: ("it does not know this command", "use a later server"),
    ResponseCode.FRAME_TOO_LARGE: ("a frame was too large", "send smaller batches"),
    ResponseCode.INTERNAL_ERROR: ("it failed, or is overloaded", "look at the server's log, try again"),
    ResponseCode.ACCESS_REFUSED: ("the user may not do this", "give it the permission"),
    ResponseCode.PRECONDITION_FAILED: ("it contradicts what is there, or what may be", "check the arguments"),
    ResponseCode.PUBLISHER_DOES_NOT_EXIST: ("there is no such publisher", "declare it again"),
    ResponseCode.NO_OFFSET: ("no offset is stored", "store one first"),
}


def says(code: int) -> str:
    """A response code in words, with what to do."""
    words = _WORDS.get(code)  # type: ignore[call-overload]
    return f"code {code:#04x}" if words is None else f"{words[0]} (code {code:#04x}); {words[1]}"


class PeerUnreachable(PeerError):
    """No connection came about."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"cannot connect to {address}: {reason}; start the server there, or check the address"
        )


class ConnectionLost(PeerError):
    """The connection ended without a word."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"the connection to {address} is gone: {reason}; connect again")


class ClosedByPeer(PeerError):
    """The server closed the connection, and said why; `code` is the number or the condition that it gave."""

    def __init__(self, address: str, code: int | str, reason: str) -> None:
        self.address, self.code, self.reason = address, code, reason
        if isinstance(code, str):
            said = f"{reason} ({code})" if reason else code
        else:
            said = f"{reason or says(code)} (code {code:#04x})"
        super().__init__(f"{address} closed the connection: {said}")


class PeerSilent(PeerError):
    """Neither data nor a heartbeat came for too long."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address, self.seconds = address, seconds
        super().__init__(f"{address} was silent for {seconds:g} s; check server and network, connect again")


class RequestTimedOut(PeerError):
    """An answer did not come in time; whether the request was carried out is unknown."""

    def __init__(self, request: str, seconds: float) -> None:
        self.request, self.seconds = request, seconds
        super().__init__(f"no answer to {request} within {seconds:g} s; check the server, or allow more time")


class TooMuchDelivered(PeerError):
    """The server sent more chunks than it had credit for."""

    def __init__(self, stream: str, chunks_max: int) -> None:
        self.stream, self.chunks_max = stream, chunks_max
        super().__init__(
            f"the server sent more than {chunks_max} chunks of {stream} without credit; it needs mending"
        )


class DamagedChunk(MalformedFrame):
    """A chunk whose entries are not what its header says."""

    def __init__(self, stream: str, offset: int, reason: str) -> None:
        super().__init__(f"chunk {offset} of {stream}: {reason}")
        self.stream, self.offset, self.reason = stream, offset, reason


class UnpackedTooLarge(PeerError):
    """A sub-batch that would unpack to more than is allowed."""

    def __init__(self, stream: str, offset: int, size_bytes: int, size_bytes_max: int) -> None:
        self.stream, self.offset = stream, offset
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max
        super().__init__(
            f"a sub-batch at offset {offset} of {stream} says it unpacks to {size_bytes} bytes, "
            f"the maximum is {size_bytes_max}; raise unpacked_bytes_max if that is meant"
        )


class StreamGone(CallerError):
    """The stream was deleted, or became unavailable, while it was in use."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        super().__init__(f"stream {stream} was deleted or is not available; check that it exists, then go on")


class RequestRefused(CallerError):
    """The server does not do what was asked; `code` is its answer."""

    def __init__(self, request: str, subject: str, code: int) -> None:
        self.request, self.subject, self.code = request, subject, code
        super().__init__(f"{request} {subject!r} was refused: {says(code)}")


class AuthenticationFailed(CallerError):
    """The server does not let us in, or is not who it should be."""

    def __init__(self, user: str, reason: str, code: int = 0) -> None:
        self.user, self.reason, self.code = user, reason, code
        super().__init__(f"authentication as {user!r} failed: {reason}")


class HttpRefused(CallerError):
    """The server answered an HTTP request with a problem (RFC 9457)."""

    def __init__(self, status: int, word: str, detail: str) -> None:
        self.status, self.word, self.detail = status, word, detail
        super().__init__(f"the server refused that ({status}): {detail}")


class NoIdLeft(CallerError):
    """A connection has 256 publishers and 256 subscriptions, and no more."""

    def __init__(self, what: str, count_max: int) -> None:
        self.what, self.count_max = what, count_max
        super().__init__(f"a connection has no more than {count_max} {what}; open another connection")


class MessageTooLarge(CallerError):
    """A message does not fit a frame of the connection."""

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max
        super().__init__(
            f"a message of {size_bytes} bytes is above the {size_bytes_max} that a frame takes; send smaller ones"
        )


class IdsNotRising(CallerError):
    """A publishing id that is not above all before it."""

    def __init__(self, publishing_id: int, last_id: int) -> None:
        self.publishing_id, self.last_id = publishing_id, last_id
        super().__init__(
            f"publishing id {publishing_id} is not above {last_id}; "
            "ids of a publisher rise: open another one to repeat some"
        )


class MessagesRefused(HeadwaterError):
    """The server did not take these messages; `refusals` has the code of each by its publishing id."""

    def __init__(self, stream: str, refusals: dict[int, int], count: int) -> None:
        self.stream, self.refusals, self.count = stream, refusals, count
        ids = ", ".join(map(str, list(refusals)[:_IDS_SHOWN_MAX]))
        more = ", …" if count > _IDS_SHOWN_MAX else ""
        reasons = "; ".join(map(says, sorted(set(refusals.values()))))
        super().__init__(f"{stream} did not take {count} messages (ids {ids}{more}): {reasons}")
