"""A kernel in its two forms: as it was compiled, and as Python from the same file."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.errors import HeadwaterError

__all__ = ["both_forms", "same_in"]


def both_forms(compiled: ModuleType) -> list[Any]:
    """The module that was imported, and its file loaded anew without its compiled form."""
    name = compiled.__name__
    path = Path(str(compiled.__spec__ and compiled.__spec__.origin)).with_name(
        name.rpartition(".")[2] + ".py"
    )
    spec = importlib.util.spec_from_file_location(name.replace(".", "_") + "_uncompiled", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [compiled, module]


def same_in(forms: Sequence[Any]) -> Callable[[Callable[[Any], Any]], tuple[Any, ...]]:
    """A function that gives the outcome of a call with each form, and holds them to be the same."""

    def same(call: Callable[[Any], Any]) -> tuple[Any, ...]:
        first, second = (_outcome(functools.partial(call, form)) for form in forms)
        assert first == second
        return first

    return same


def _outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """What the call gives, or its error in a form that compares."""
    try:
        return ("result", call())
    except (HeadwaterError, ValueError) as error:
        return (type(error), str(error), dict(vars(error)))
