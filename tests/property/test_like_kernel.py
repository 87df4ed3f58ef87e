"""Parts of LIKE patterns looked for in text, compiled and uncompiled, beside regular expressions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.encoding import _like_kernel as compiled
from headwater.encoding.amqp_types import Symbol
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
same = same_in(FORMS)
EACH_FORM = pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
CHARACTERS = st.sampled_from(["a", "b", "\x00", "\x7f", "\x80", "ü", "\uffff", "\U0001f389", "."])
PARTS = st.lists(st.one_of(CHARACTERS, st.none()), min_size=1, max_size=8).map(tuple)
LONG_PARTS = st.lists(st.sampled_from(["a", "b", None]), min_size=60, max_size=256).map(tuple)


def expected(part: tuple[str | None, ...], text: str, start: int, end: int) -> int:
    """The first place to end is behind the first place to begin: all have the same length."""
    pattern = "".join("." if wanted is None else re.escape(wanted) for wanted in part)
    found = re.compile(pattern, re.DOTALL).search(text, start, end)
    return -1 if found is None else found.end()


def test_both_forms_are_there() -> None:
    assert [form.COMPILED for form in FORMS] == [True, False], "the kernel was not compiled: run `make ready`"


@given(part=PARTS, text=st.text(CHARACTERS, max_size=20), start=st.integers(0, 5), cut=st.integers(0, 5))
def test_a_part_is_found_where_a_regular_expression_finds_it(
    part: tuple[str | None, ...], text: str, start: int, cut: int
) -> None:
    end = len(text) - cut
    if 0 <= start <= end:
        outcome = same(lambda form: form.PartFinder(part).find(text, start, end))
        assert outcome == ("result", expected(part, text, start, end))


@given(part=LONG_PARTS, before=st.text("ab", max_size=70), behind=st.text("ab", max_size=5))
@example(part=("a",) * 64, before="", behind="")
@example(part=("a",) * 65, before="a", behind="")
@example(part=("a", *(None,) * 127), before="b", behind="")
@example(part=(*(None,) * 128, "b"), before="a", behind="")
@example(part=("b", *("a",) * 255), before="ba", behind="")
def test_a_part_may_be_longer_than_a_word_of_bits(
    part: tuple[str | None, ...], before: str, behind: str
) -> None:
    text = before + "".join(wanted or "x" for wanted in part) + behind
    outcome = same(lambda form: form.PartFinder(part).find(text, 0, len(text)))
    assert outcome == ("result", expected(part, text, 0, len(text)))
    assert outcome[1] > 0
    cut = text.replace("x", "").replace("ab", "")
    outcome = same(lambda form: form.PartFinder(part).find(cut, 0, len(cut)))
    assert outcome == ("result", expected(part, cut, 0, len(cut)))


@EACH_FORM
def test_a_part_may_name_as_many_characters_as_it_has(form: Any) -> None:
    part = tuple(map(chr, range(30, 30 + compiled.PART_CHARACTERS_MAX)))
    text = "x" + "".join(part)
    assert form.PartFinder(part).find(text, 0, len(text)) == len(text)
    assert form.PartFinder(part).find(text, 2, len(text)) == -1
    assert form.PartFinder((None, *part[1:])).find("x" + text[2:], 0, len(text) - 1) == len(text) - 1


@pytest.mark.parametrize("part", [(), ("a",) * (compiled.PART_CHARACTERS_MAX + 1)])
def test_parts_have_a_length_that_they_may_have(part: tuple[str, ...]) -> None:
    assert same(lambda form: form.PartFinder(part))[0] is ValueError


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 4), (5, 6)])
def test_places_outside_of_the_text_are_refused(start: int, end: int) -> None:
    assert same(lambda form: form.PartFinder(("a",)).find("aaa", start, end))[0] is ValueError


@EACH_FORM
def test_nothing_is_found_in_nothing(form: Any) -> None:
    assert form.PartFinder((None,)).find("aaa", 2, 2) == -1
    assert form.PartFinder((None,)).find("aaa", 3, 1) == -1


@EACH_FORM
def test_texts_may_be_of_a_class_of_their_own(form: Any) -> None:
    assert form.PartFinder(("b", None)).find(Symbol("abc"), 0, 3) == 3
