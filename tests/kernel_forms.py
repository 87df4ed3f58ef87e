"""A kernel in its two forms: as it was compiled, and as Python from the same file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["both_forms"]


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
