"""docs/conformance.md, written from the clauses and the markers of the tests: `python -m tests.conformance.clauses`."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = [
    "DOCUMENT",
    "Family",
    "Shown",
    "load_families",
    "markers_in",
    "rendered",
    "shown_by_tests",
    "written_into",
]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "conformance.md"
BEGIN = "<!-- from here to the end mark: written by `make conformance` -->"
END = "<!-- end mark -->"


class Clause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One demand, in our words, and the modules of `src/headwater` that meet it."""

    says: str
    modules: tuple[str, ...]


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The clauses of one specification."""

    title: str
    about: str
    clauses: dict[str, Clause]


class Shown(NamedTuple):
    """A test that shows some clauses to hold."""

    path: Path
    name: str
    clauses: tuple[str, ...]


def load_families() -> list[Family]:
    """All families in their order."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["families"], list[Family])


def shown_by_tests() -> list[Shown]:
    """Every marked test of the tree."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return [shown for path in paths for shown in markers_in(path, path.read_text("utf-8"))]


def markers_in(path: Path, source: str) -> Iterator[Shown]:
    """The marked tests of a module; a marker of the module counts for each of its tests."""
    tree = ast.parse(source)
    common: tuple[str, ...] = ()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            common = tuple(clause for call in ast.walk(node.value) for clause in _marked(call))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            own = tuple(clause for decorator in node.decorator_list for clause in _marked(decorator))
            if common or own:
                yield Shown(path, node.name, common + own)


def rendered(families: Sequence[Family], shown: Sequence[Shown]) -> str:
    """The tables, each clause with its modules and tests."""
    by_clause: dict[str, list[Shown]] = {}
    for test in shown:
        for clause in test.clauses:
            by_clause.setdefault(clause, []).append(test)
    return "\n".join(line for family in families for line in _table(family, by_clause))


def written_into(document: str, tables: str) -> str:
    """The document with these tables between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def _table(family: Family, by_clause: Mapping[str, Sequence[Shown]]) -> Iterator[str]:
    yield from (
        f"## {family.title}",
        "",
        family.about,
        "",
        "| clause | what | where | shown by |",
        "|---|---|---|---|",
    )
    for name, clause in family.clauses.items():
        modules = "<br>".join(f"[{module}](../src/headwater/{module})" for module in clause.modules)
        tests = "<br>".join(_link(test) for test in by_clause.get(name, ()))
        yield f"| {name} | {clause.says} | {modules} | {tests} |"
    yield ""


def _link(test: Shown) -> str:
    words = test.name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../{test.path.relative_to(ROOT)})"


def _marked(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.clause":
        yield from (ast.literal_eval(argument) for argument in node.args)


def main() -> None:
    """Write the document anew."""
    tables = rendered(load_families(), shown_by_tests())
    DOCUMENT.write_text(written_into(DOCUMENT.read_text("utf-8"), tables), "utf-8")


if __name__ == "__main__":
    main()
