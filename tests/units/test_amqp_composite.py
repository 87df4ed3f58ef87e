"""Composites: fields by their place, what is missing or wrong by its path."""

from __future__ import annotations

import msgspec
import pytest

from headwater.encoding.amqp_composite import Composite, OneOf, read_descriptor
from headwater.encoding.amqp_fields import string, uint
from headwater.encoding.amqp_types import NESTING_DEPTH_MAX, Described, Symbol, Uint, Ulong
from headwater.errors import InvalidField, InvalidValue, MalformedValue
from tests.amqp_material import compound, laid_out

S = Symbol


class Inner(msgspec.Struct, frozen=True):
    number: int


class Outer(msgspec.Struct, frozen=True):
    may_be_none: int | None
    name: str
    number: int = 7
    inner: Inner | Described | None = None


class Empty(msgspec.Struct, frozen=True):
    pass


INNER = Composite(0x01, "inner", Inner, number=uint)
EMPTY = Composite(0x02, "empty", Empty)
CHOICE = OneOf(INNER, EMPTY)
OUTER = Composite(0x03, "outer", Outer, may_be_none=uint, name=string, number=uint, inner=CHOICE)


def read(data: str) -> Outer:
    encoded = bytes.fromhex(data)
    value, behind = OUTER.decode(encoded, 3, len(encoded))
    assert behind == len(encoded)
    return value


@pytest.mark.clause("AMQP 1.4")
def test_fields_are_known_by_their_place() -> None:
    value = Outer(1, "n", 2, Inner(3))
    data = laid_out(3, "5201", "a1016e", "5202", laid_out(1, "5203"))
    assert OUTER.encode(value).hex() == data
    assert read(data) == value


@pytest.mark.clause("AMQP 1.4")
def test_null_and_absent_are_the_default() -> None:
    assert (
        read(laid_out(3, "40", "a1016e")) == read(laid_out(3, "40", "a1016e", "40", "40")) == Outer(None, "n")
    )
    assert OUTER.encode(Outer(None, "n")).hex() == laid_out(3, "40", "a1016e", "5207", "40")


def test_a_composite_without_fields_is_an_empty_list() -> None:
    assert EMPTY.encode(Empty()).hex() == "00530245"
    for data in ("45", compound(0xC0), compound(0xD0)):
        encoded = bytes.fromhex(data)
        assert EMPTY.decode(encoded, 0, len(encoded)) == (Empty(), len(encoded))


@pytest.mark.clause("AMQP 1.4")
@pytest.mark.parametrize(
    ("data", "path"),
    [
        (laid_out(3), "outer.name"),
        (laid_out(3, "5201", "40"), "outer.name"),
        (laid_out(3, "a10161", "a1016e"), "outer.may_be_none"),
        (laid_out(3, "40", "a1016e", "41"), "outer.number"),
        (laid_out(3, "40", "a1016e", "40", "5201"), "outer.inner"),
        (laid_out(3, "40", "a1016e", "40", laid_out(1)), "outer.inner.number"),
        (laid_out(3, "40", "a1016e", "40", laid_out(1, "41")), "outer.inner.number"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(data: str, path: str) -> None:
    with pytest.raises(InvalidField) as raised:
        read(data)
    assert raised.value.field == path


@pytest.mark.parametrize(
    "data",
    [
        "000000",
        "000000 40",
        "000000 c1 0100",
        laid_out(3, "40", "a1016e", "40", "40", "40"),
        "005303" + compound(0xC0, "40", "a1016e", count=3),
        "005303" + compound(0xC0, "40", "a1016e", count=1),
        "005303" + compound(0xC0, "40", "a1", count=2),
    ],
)
def test_a_list_that_does_not_add_up_is_malformed(data: str) -> None:
    with pytest.raises(MalformedValue) as raised:
        read(data)
    assert not isinstance(raised.value, InvalidField)


def test_nesting_counts_the_levels_of_composites() -> None:
    data = bytes.fromhex(laid_out(3, "40", "a1016e", "40", laid_out(1, "5201")))
    assert OUTER.read(data, 0, len(data), NESTING_DEPTH_MAX - 4)
    for depth in (NESTING_DEPTH_MAX - 3, NESTING_DEPTH_MAX - 1):
        with pytest.raises(MalformedValue, match="nested"):
            OUTER.read(data, 0, len(data), depth)


def test_a_descriptor_is_read_in_every_form() -> None:
    for data, descriptor in (
        ("005301", Ulong(1)),
        ("0044", Ulong(0)),
        ("00800000000000000001", Ulong(1)),
        ("00a30161", S("a")),
        ("005201", Uint(1)),
    ):
        encoded = bytes.fromhex(data)
        found, behind = read_descriptor(encoded + b"\x40", 0, len(encoded) + 1)
        assert (found, type(found), behind) == (descriptor, type(descriptor), len(encoded))
    for data in ("", "40", "00", "0053", "0080000000"):
        with pytest.raises(MalformedValue):
            read_descriptor(bytes.fromhex(data), 0, len(bytes.fromhex(data)))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (laid_out(1, "5201"), Inner(1)),
        ("008000000000000000 01" + compound(0xC0, "5201"), Inner(1)),
        (
            "00a3" + f"{len('amqp:inner:list'):02x}" + b"amqp:inner:list".hex() + compound(0xC0, "5201"),
            Inner(1),
        ),
        ("00530245", Empty()),
        ("00530345", Described(Ulong(3), [])),
        ("00520145", Described(Uint(1), [])),
        ("00a3016145", Described(S("a"), [])),
        ("004540", Described([], None)),
    ],
)
def test_one_of_several_is_found_by_its_descriptor_and_others_are_kept(data: str, value: object) -> None:
    encoded = bytes.fromhex(data)
    assert CHOICE.read(encoded, 0, len(encoded), 0) == (value, len(encoded))


def test_a_field_of_one_composite_takes_no_other() -> None:
    for data in ("00530245", "00520145", "00a3016145"):
        encoded = bytes.fromhex(data)
        with pytest.raises(InvalidField, match="is no inner"):
            INNER.read(encoded, 0, len(encoded), 0)


def test_what_is_none_of_several_is_not_written() -> None:
    with pytest.raises(InvalidValue):
        OUTER.encode(Outer(None, "n", 7, Outer(None, "n")))  # type: ignore[arg-type]
    described = Described(S("a"), [1])
    assert OUTER.encode(Outer(None, "n", 7, described)).endswith(
        bytes.fromhex("00a30161" + compound(0xC0, "5501"))
    )
