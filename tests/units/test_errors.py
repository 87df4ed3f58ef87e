"""Every leaf of the error tree keeps its fields and makes a sentence of them."""

from __future__ import annotations

import inspect
import pickle

import pytest

from headwater import errors
from headwater.errors import CallerError, HeadwaterError, MalformedFrame, PeerError, StorageError

BRANCHES = (PeerError, CallerError, StorageError)


def leaves() -> list[type[HeadwaterError]]:
    named = [getattr(errors, name) for name in errors.__all__]
    return [kind for kind in named if kind not in (HeadwaterError, *BRANCHES)]


def made(kind: type[HeadwaterError]) -> tuple[HeadwaterError, dict[str, object]]:
    fields: dict[str, object] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        number = "int" in str(parameter.annotation) and "str" not in str(parameter.annotation)
        fields[name] = 28 if number else f"the-{name}"
    return kind(**fields), fields


def test_every_public_name_is_an_error_and_every_error_is_public() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, HeadwaterError)
    }
    assert defined == set(errors.__all__)


@pytest.mark.parametrize("kind", leaves())
def test_a_leaf_belongs_to_one_branch(kind: type[HeadwaterError]) -> None:
    assert [branch for branch in BRANCHES if issubclass(kind, branch)] == [kind.__mro__[-5]]


@pytest.mark.parametrize("kind", leaves())
def test_a_leaf_keeps_its_fields_and_says_what_to_do(kind: type[HeadwaterError]) -> None:
    error, fields = made(kind)
    for name, value in fields.items():
        assert getattr(error, name) == value
        assert str(value) in str(error) or "No space left on device" in str(error)
    assert len(str(error)) > 30
    assert not str(error).endswith(".")


@pytest.mark.parametrize("kind", leaves())
def test_a_leaf_survives_a_pickle(kind: type[HeadwaterError]) -> None:
    error, fields = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in fields} == fields


def test_an_invalid_sub_batch_is_a_malformed_frame() -> None:
    error = errors.MalformedSubBatch(7, "it holds no records")
    assert isinstance(error, MalformedFrame)
    assert "publishing id 7" in str(error)


def test_the_holder_of_a_folder_may_be_unknown() -> None:
    assert "another process" in str(errors.FolderInUse("/data", None))
