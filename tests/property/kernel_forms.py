"""A kernel in both of its forms: as it was compiled, and the same file run by the interpreter."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from headwater.errors import HeadwaterError

__all__ = ["load_uncompiled", "same_in"]


def load_uncompiled(compiled: ModuleType) -> Any:
    """The kernel's source as a module of its own."""
    name = compiled.__name__.rpartition(".")[2]
    path = Path(compiled.__file__ or "").with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"uncompiled{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
