"""Errors of the stream protocol belong to the one tree, keep their fields, and carry the code that closes."""

from __future__ import annotations

import pickle

import pytest

from headwater.errors import CallerError, HeadwaterError, MalformedFrame, PeerError
from headwater.streams.commands import ResponseCode
from headwater.streams.errors import (
    ConnectionEnded,
    FrameTooLarge,
    InvalidCommand,
    OutOfOrder,
    UnknownFrame,
    code_of,
)


@pytest.mark.parametrize(
    ("error", "branch", "code"),
    [
        (UnknownFrame(0x20, 1), MalformedFrame, ResponseCode.UNKNOWN_FRAME),
        (OutOfOrder("publish", "tune"), PeerError, ResponseCode.UNKNOWN_FRAME),
        (FrameTooLarge(9_000, 8_192), PeerError, ResponseCode.FRAME_TOO_LARGE),
        (MalformedFrame("it is cut off"), PeerError, ResponseCode.UNKNOWN_FRAME),
    ],
)
def test_a_peers_fault_has_a_code(error: PeerError, branch: type[PeerError], code: ResponseCode) -> None:
    assert isinstance(error, branch)
    assert code_of(error) is code
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("error", [ConnectionEnded("a Create"), InvalidCommand("Create", "too long")])
def test_a_callers_fault_says_what_to_do(error: HeadwaterError) -> None:
    assert isinstance(error, CallerError)
    assert "; " in str(error)
    assert "Create" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("begin", "advice"),
    [(b"AMQP", "it speaks AMQP"), (b"GET ", "it speaks HTTP"), (b"\0\0\x30\0", "smaller batches")],
)
def test_who_took_the_wrong_port_is_known_by_its_first_bytes(begin: bytes, advice: str) -> None:
    assert advice in str(FrameTooLarge(int.from_bytes(begin, "big"), 8_192))
