"""Performatives: every field where the specification has it, absent ones as their defaults, wrong ones named."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.amqp.definitions import (
    Condition,
    ErrorValue,
    ReceiverSettleMode,
    Role,
    SenderSettleMode,
)
from headwater.amqp.messaging import Accepted, Received, Source, Target
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
    decode_performative,
    encode_performative,
)
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from headwater.errors import InvalidField, InvalidValue, MalformedValue
from tests.amqp_material import laid_out

S = Symbol


NOT_FOUND = laid_out(0x1D, "a30e" + b"amqp:not-found".hex(), "40", "40")
SESSION_END = "a30b" + b"session-end".hex()
SOURCE = laid_out(0x28, "a10173", "43", SESSION_END, "43", "42", *6 * ["40"])
TARGET = laid_out(0x29, "a10174", "43", SESSION_END, "43", "42", *2 * ["40"])
AA, BB = "e00501a3024141", "e00501a3024242"

FULL: list[tuple[Performative, int, list[str]]] = [
    (
        Open("c", "h", 512, 9, 1000, (S("en-US"),), (S("x"),), (S("AA"), S("BB")), (S("CC"),), {S("p"): 1}),
        0x10,
        [
            *(
                "a10163",
                "a10168",
                "7000000200",
                "600009",
                "70000003e8",
                "e00801a305656e2d5553",
                "e00401a30178",
            ),
            *("e00802a3024141024242", "e00501a3024343", "c10602a301705501"),
        ],
    ),
    (
        Begin(1, 2, 3, 4, 5, (S("AA"),), (S("BB"),), {}),
        0x11,
        ["600001", "5202", "5203", "5204", "5205", AA, BB, "c10100"],
    ),
    (
        Attach(
            "l",
            0,
            Role.RECEIVER,
            SenderSettleMode.SETTLED,
            ReceiverSettleMode.SECOND,
            Source("s"),
            Target("t"),
            {b"\x01": Accepted(), b"\x02": None},
            True,
            2**32 - 1,
            2**64 - 1,
            (S("AA"),),
            (S("BB"),),
            {S("p"): "v"},
        ),
        0x12,
        [
            *("a1016c", "43", "41", "5001", "5001", SOURCE, TARGET, "c10c04 a00101 00532445 a00102 40", "41"),
            *("70ffffffff", "80ffffffffffffffff", AA, BB, "c10702a30170a10176"),
        ],
    ),
    (
        Flow(0, 1, 2, 3, 4, 5, 256, 0, True, True, {S("p"): None}),
        0x13,
        ["43", "5201", "5202", "5203", "5204", "5205", "7000000100", "43", "41", "41", "c10502a3017040"],
    ),
    (
        Transfer(0, 1, b"\xff", 0, True, True, ReceiverSettleMode.FIRST, Received(1, 2), True, True, True),
        0x14,
        ["43", "5201", "a001ff", "43", "41", "41", "5000", laid_out(0x23, "5201", "5302"), "41", "41", "41"],
    ),
    (
        Disposition(Role.SENDER, 0, 1, True, Accepted(), True),
        0x15,
        ["42", "43", "5201", "41", "00532445", "41"],
    ),
    (Detach(0, True, ErrorValue(Condition.NOT_FOUND)), 0x16, ["43", "41", NOT_FOUND]),
    (End(ErrorValue(Condition.NOT_FOUND)), 0x17, [NOT_FOUND]),
    (Close(ErrorValue(Condition.NOT_FOUND)), 0x18, [NOT_FOUND]),
]
ENCODED = [(performative, bytes.fromhex(laid_out(code, *fields))) for performative, code, fields in FULL]

LEAST: list[tuple[Performative, int, list[str], list[str]]] = [
    (Open("c"), 0x10, ["a10163"], ["a10163", "40", "70ffffffff", "60ffff", *6 * ["40"]]),
    (
        Begin(None, 0, 1, 2),
        0x11,
        ["40", "43", "5201", "5202"],
        ["40", "43", "5201", "5202", "70ffffffff", *3 * ["40"]],
    ),
    (
        Attach("l", 0, Role.SENDER),
        0x12,
        ["a1016c", "43", "42"],
        ["a1016c", "43", "42", "5002", "5000", *3 * ["40"], "42", *5 * ["40"]],
    ),
    (
        Flow(None, 0, 0, 0),
        0x13,
        ["40", "43", "43", "43"],
        ["40", "43", "43", "43", *4 * ["40"], "42", "42", "40"],
    ),
    (Transfer(0), 0x14, ["43"], ["43", *4 * ["40"], "42", "40", "40", *3 * ["42"]]),
    (Disposition(Role.RECEIVER, 0), 0x15, ["41", "43"], ["41", "43", "40", "42", "40", "42"]),
    (Detach(0), 0x16, ["43"], ["43", "42", "40"]),
    (End(), 0x17, [], ["40"]),
    (Close(), 0x18, [], ["40"]),
]


def decoded(data: bytes) -> Performative:
    performative, position = decode_performative(data, 0, len(data))
    assert position == len(data)
    return performative


@pytest.mark.clause("AMQP 2.7", "AMQP encoding 1")
@pytest.mark.parametrize(("performative", "data"), ENCODED)
def test_every_field_stands_where_it_is_laid_out(performative: Performative, data: bytes) -> None:
    assert encode_performative(performative).hex(" ") == data.hex(" ")
    assert decoded(data) == performative


@pytest.mark.clause("AMQP 2.7", "AMQP encoding 1", "AMQP encoding 2")
@pytest.mark.parametrize(("performative", "code", "given", "written"), LEAST)
def test_absent_fields_have_their_defaults_and_are_written_in_full(
    performative: Performative, code: int, given: list[str], written: list[str]
) -> None:
    data = bytes.fromhex(laid_out(code, *written))
    assert decoded(bytes.fromhex(laid_out(code, *given))) == performative
    assert encode_performative(performative).hex(" ") == data.hex(" ")
    assert decoded(data) == performative


@pytest.mark.clause("AMQP encoding 2")
@pytest.mark.parametrize(("performative", "code", "fields"), FULL)
def test_any_form_of_descriptor_and_list_is_read(
    performative: Performative, code: int, fields: list[str]
) -> None:
    name = f"amqp:{type(performative).__name__.lower()}:list".encode()
    items = bytes.fromhex("".join(fields))
    for descriptor in (
        bytes((0x53, code)),
        b"\x80" + code.to_bytes(8, "big"),
        b"\xa3" + bytes((len(name),)) + name,
        b"\xb3" + len(name).to_bytes(4, "big") + name,
    ):
        for head in (
            bytes((0xC0, len(items) + 1, len(fields))),
            b"\xd0" + (len(items) + 4).to_bytes(4, "big") + len(fields).to_bytes(4, "big"),
        ):
            assert decoded(b"\0" + descriptor + head + items) == performative


@pytest.mark.parametrize("code", [0x17, 0x18])
def test_an_empty_list_has_a_form_of_its_own(code: int) -> None:
    assert decoded(bytes((0, 0x53, code, 0x45))) == {0x17: End(), 0x18: Close()}[code]


def test_the_payload_of_a_transfer_is_left_where_it_stands() -> None:
    data = b"." + encode_performative(Transfer(7)) + b"payload."
    assert decode_performative(data, 1, len(data) - 1) == (Transfer(7), len(data) - len(b"payload."))


@pytest.mark.parametrize(
    ("code", "fields", "field"),
    [
        (0x10, [], "open.container_id"),
        (0x10, ["40"], "open.container_id"),
        (0x10, ["a30163"], "open.container_id"),
        (0x10, ["a10163", "40", "43", "43"], "open.channel_max"),
        (0x11, ["40", "40", "43", "43"], "begin.next_outgoing_id"),
        (0x12, ["a1016c", "43"], "attach.role"),
        (0x12, ["a1016c", "43", "41", "5003"], "attach.snd_settle_mode"),
        (0x12, ["a1016c", "43", "41", "43"], "attach.snd_settle_mode"),
        (0x12, ["a1016c", "43", "41", "40", "40", laid_out(0x28, "43")], "attach.source.address"),
        (0x12, ["a1016c", "43", "41", "40", "40", "43"], "attach.source"),
        (0x12, ["a1016c", "43", "41", *4 * ["40"], "c107025301 00532445"], "attach.unsettled"),
        (0x12, ["a1016c", "43", "41", *4 * ["40"], "c10502a0010145"], "attach.unsettled"),
        (0x12, ["a1016c", "43", "41", *10 * ["40"], "45"], "attach.properties"),
        (0x14, ["8000000000"], "transfer.handle"),
        (0x15, ["43", "43"], "disposition.role"),
        (0x17, [laid_out(0x1D, "40")], "end.error.condition"),
        (0x17, ["00532445"], "end.error"),
        (0x18, [laid_out(0x1D, "a30161", "43")], "close.error.description"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_named(
    code: int, fields: list[str], field: str
) -> None:
    with pytest.raises(InvalidField) as raised:
        decoded(bytes.fromhex(laid_out(code, *fields)))
    assert (raised.value.field, raised.value.condition) == (field, "amqp:invalid-field")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "0053",
        "005310",
        "40",
        "005310 40",
        "005324 45",
        "0053ff 45",
        "00a3 01 78 45",
        "00 45 45",
        "00 c10100 45",
        "00 5210 c00401 a10163",
        "005316 c00304 43 40 40",
        "005316 c00504 43 40 40 40",
        "005316 c00301 43 40",
        "005316 c00001 43",
        "005316 c0ff01 43",
        "005316 d00000000301 43",
        "005316 d0ffffffff00000001 43",
    ],
)
def test_what_is_no_performative_is_malformed(data: str) -> None:
    encoded = bytes.fromhex(data)
    with pytest.raises(MalformedValue) as raised:
        decode_performative(encoded, 0, len(encoded))
    assert raised.value.condition == "amqp:decode-error"


def test_no_performative_is_read_beyond_its_end() -> None:
    for performative, encoded in ENCODED:
        for end in range(len(encoded)):
            with pytest.raises(MalformedValue):
                decode_performative(encoded, 0, end)
        assert decoded(encoded) == performative


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read(buffer: Any) -> None:
    for performative, encoded in ENCODED:
        assert decode_performative(buffer(encoded), 0, len(encoded))[0] == performative


@pytest.mark.parametrize(
    "performative",
    [
        Transfer(2**32),
        Transfer(-1),
        Begin(2**16, 0, 0, 0),
        Open("\ud800"),
        Close(ErrorValue(S("é"))),
        Open("c", properties={S("p"): object()}),
        Disposition(Role.SENDER, 0, state=Source()),  # type: ignore[arg-type]
    ],
)
def test_a_field_out_of_its_range_is_the_callers_fault(performative: Performative) -> None:
    with pytest.raises(InvalidValue):
        encode_performative(performative)


def test_a_state_that_is_unknown_is_kept() -> None:
    transactional = Described(Ulong(0x34), [b"txn", Described(Ulong(0x24), [])])
    transfer = Transfer(0, state=transactional)
    assert decoded(encode_performative(transfer)) == transfer
