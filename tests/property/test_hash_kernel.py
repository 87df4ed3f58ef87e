"""Murmur3 and the bloom filter, compiled and uncompiled."""

from __future__ import annotations

from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.encoding import _hash_kernel as compiled
from tests.kernel_forms import both_forms, same_in

FORMS = both_forms(compiled)
same = same_in(FORMS)


def test_both_forms_are_there() -> None:
    assert [form.COMPILED for form in FORMS] == [True, False], "the kernel was not compiled: run `make ready`"


@given(st.binary(max_size=70), st.integers(0, 2**32 - 1))
def test_murmur3_is_that_of_another_implementation(data: bytes, seed: int) -> None:
    expected = mmh3.hash(data, seed, signed=False)
    for form in FORMS:
        assert form.murmur3_32(data, seed) == expected
        assert form.murmur3_32(memoryview(data), seed) == expected
        assert form.murmur3_32(bytearray(data)) == mmh3.hash(data, 104_729, signed=False)


@given(st.integers(1, 255), st.lists(st.binary(max_size=12), max_size=12), st.binary(max_size=12))
def test_a_bloom_filter_never_denies_what_was_added(size: int, added: list[bytes], other: bytes) -> None:
    filters = [bytearray(size), bytearray(size)]
    for form, bloom in zip(FORMS, filters, strict=True):
        for value in added:
            form.bloom_add(bloom, value)
        assert all(form.bloom_may_contain(bytes(bloom), value) for value in added)
    assert filters[0] == filters[1]
    same(lambda form: form.bloom_may_contain(filters[0], other))


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_a_bloom_filter_excludes_nearly_all_others(form: Any) -> None:
    bloom = bytearray(16)
    for number in range(8):
        form.bloom_add(bloom, b"region-%d" % number)
    passed = sum(form.bloom_may_contain(bloom, b"other-%d" % number) for number in range(10_000))
    assert passed < 100
    assert not form.bloom_may_contain(bytes(16), b"anything")


@pytest.mark.parametrize("form", FORMS, ids=["compiled", "uncompiled"])
def test_a_filter_of_no_bytes_excludes_nothing(form: Any) -> None:
    bloom = bytearray()
    form.bloom_add(bloom, b"a")
    assert not bloom
    assert form.bloom_may_contain(bloom, b"b")
