"""docs/conformance.md says what the tests show, and every clause is shown by one."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.clauses import (
    DOCUMENT,
    ROOT,
    load_families,
    markers_in,
    rendered,
    shown_by_tests,
    written_into,
)


def test_markers_of_modules_and_functions_are_found() -> None:
    source = """
import pytest
pytestmark = [pytest.mark.peers, pytest.mark.clause("A")]
@pytest.mark.clause("B", "C")
@pytest.mark.parametrize("x", [1])
def test_one(): ...
async def test_two(): ...
def helper(): ...
"""
    found = [(test.name, test.clauses) for test in markers_in(Path("x"), source)]
    assert found == [("test_one", ("A", "B", "C")), ("test_two", ("A",))]


def test_every_clause_is_shown_by_a_test() -> None:
    shown = {clause for test in shown_by_tests() for clause in test.clauses}
    known = [name for family in load_families() for name in family.clauses]
    assert len(known) == len(set(known))
    assert [name for name in known if name not in shown] == []


def test_every_marker_names_a_clause() -> None:
    known = {name for family in load_families() for name in family.clauses}
    assert [test for test in shown_by_tests() if not known.issuperset(test.clauses)] == []


def test_every_module_is_there() -> None:
    clauses = [clause for family in load_families() for clause in family.clauses.values()]
    modules = {module for clause in clauses for module in clause.modules}
    assert [module for module in sorted(modules) if not (ROOT / "src" / "headwater" / module).is_file()] == []


def test_the_document_is_the_one_that_the_markers_make() -> None:
    document = DOCUMENT.read_text("utf-8")
    tables = rendered(load_families(), shown_by_tests())
    assert document == written_into(document, tables), "run: make conformance"
