"""Holds the tree to its layers and sizes; each check is shown to fail on a small made-up source first."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    {"model", "errors"},
    {"encoding"},
    {"cloudevents"},
    {"log", "engine", "amqp", "streams"},
    {"client"},
    {"delivery"},
    {"server"},
    {"cli"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
HIDDEN_FROM_SPARK = {"engine", "server", "cli"}
PURE = {"encoding", "cloudevents", "engine", "amqp", "streams"}
IMPURE_MODULES = {"asyncio", "selectors", "socket", "ssl", "threading", "time", "uvloop"}
FILE_MODULES = {"files.py", "_commit_kernel.py", "commit_twin.py"}
FILE_CALLS = re.compile(
    r"open|p?(read|write)v?|f(data)?sync|f?truncate|rename|replace|remove|unlink|link|mkdir|makedirs|rmdir"
    r"|listdir|scandir|sendfile|copy_file_range|posix_f\w+"
)
PATH_CALLS = {"read_bytes", "read_text", "write_bytes", "write_text"}
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
OWN_FOLDER = re.compile(r"(?<![\w.$~])/(?:home|work|root|Users)/\w")


def imports_of(node: ast.AST, *, typing_too: bool) -> Iterator[str]:
    """Dotted names that a module imports; `from a import b` gives `a.b`, for b may be a module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing_too:
        children = node.orelse
    for child in children:
        yield from imports_of(child, typing_too=typing_too)


def layer_of(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "headwater" else ""


def may_import(importer: str, imported: str) -> bool:
    if importer == imported or {importer, imported} <= LAYERS[0]:
        return True
    if importer == "spark":
        return imported not in HIDDEN_FROM_SPARK
    if imported == "spark":
        return importer == "cli"
    return RANK[imported] < RANK[importer]


def wrong_layers(module: str, source: str) -> list[str]:
    importer = layer_of(module)
    imported = {layer_of(name) for name in imports_of(ast.parse(source), typing_too=True)}
    known = imported & {*RANK, "spark"}
    if importer not in {*RANK, "spark"}:
        return (
            [f"{module} imports {name}" for name in sorted(known)]
            if module == "headwater"
            else [f"{module}: layer?"]
        )
    return [f"{module} imports {name}" for name in sorted(known) if not may_import(importer, name)]


def import_cycle(sources: dict[str, str]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        names = imports_of(ast.parse(source), typing_too=False)
        targets = {name if name in sources else name.rpartition(".")[0] for name in names}
        graph[module] = (targets & sources.keys()) - {module}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def impure_imports(module: str, source: str) -> list[str]:
    names = {name.partition(".")[0] for name in imports_of(ast.parse(source), typing_too=True)}
    return sorted(names & IMPURE_MODULES) if layer_of(module) in PURE else []


def file_calls(path: Path, source: str) -> list[str]:
    if path.parent.name != "log" or path.name in FILE_MODULES:
        return []
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if is_file_call(call)]


def is_file_call(call: ast.expr) -> bool:
    if isinstance(call, ast.Attribute):
        of_system = isinstance(call.value, ast.Name) and call.value.id in ("os", "io")
        return (of_system and FILE_CALLS.fullmatch(call.attr) is not None) or call.attr in PATH_CALLS
    return isinstance(call, ast.Name) and call.id == "open"


def too_long(source: str) -> list[str]:
    line_count = source.count("\n")
    long = [f"{line_count} lines"] if line_count > FILE_LINES_MAX else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            long += [f"{node.name}: {length} lines"] if length > FUNCTION_LINES_MAX else []
    return long


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def python_files(*folders: str) -> dict[Path, str]:
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return {path: path.read_text(encoding="utf-8") for path in paths}


SOURCES = python_files("src")
ALL_CODE = python_files("src", "tests", "bench", "fuzz")


def test_imports_go_down_the_layers() -> None:
    assert [
        line for path, source in SOURCES.items() for line in wrong_layers(module_name(path), source)
    ] == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert import_cycle({module_name(path): source for path, source in SOURCES.items()}) == []


def test_protocol_cores_and_engine_do_no_io() -> None:
    found = {module_name(path): impure_imports(module_name(path), source) for path, source in SOURCES.items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_data_files_are_touched_in_one_module() -> None:
    found = {path.name: file_calls(path, source) for path, source in SOURCES.items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_files_and_functions_stay_short() -> None:
    found = {str(path.relative_to(ROOT)): too_long(source) for path, source in ALL_CODE.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_text_names_a_folder_of_one_machine() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    found = {
        path.name: OWN_FOLDER.findall(path.read_text("utf-8", "ignore")) for path in paths if path.is_file()
    }
    assert {name: matches for name, matches in found.items() if matches} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headwater.log.store", "from headwater.amqp import frames"),
        ("headwater.log.store", "from headwater import engine"),
        ("headwater.encoding.types", "import headwater.log.store"),
        ("headwater.model", "def f():\n    from headwater.cli.main import app"),
        ("headwater.client.shell", "if TYPE_CHECKING:\n    from headwater.server.config import Settings"),
        ("headwater.spark.source", "from headwater.engine.effects import Effect"),
        ("headwater.server.runtime", "import headwater.spark.source"),
        ("headwater.extras.thing", "import os"),
        ("headwater", "from headwater.log import store"),
    ],
)
def test_layer_check_refuses(module: str, source: str) -> None:
    assert wrong_layers(module, source)


def test_layer_check_allows_what_goes_down() -> None:
    assert not wrong_layers(
        "headwater.log.store", "from headwater.encoding.chunk import Chunk\nimport headwater.errors"
    )
    assert not wrong_layers("headwater.spark.source", "from headwater.streams.codec import decode")
    assert not wrong_layers("headwater.server.runtime", "from headwater import __version__")


def test_cycle_check_sees_runtime_imports_only() -> None:
    back = "from headwater.log import a"
    assert import_cycle({"headwater.log.a": "from headwater.log.b import x", "headwater.log.b": back})
    guarded = f"if TYPE_CHECKING:\n    {back}"
    assert not import_cycle({"headwater.log.a": "from headwater.log.b import x", "headwater.log.b": guarded})


def test_purity_check_sees_the_clock_and_the_network() -> None:
    assert impure_imports("headwater.engine.group", "import time\nfrom asyncio import sleep") == [
        "asyncio",
        "time",
    ]
    assert not impure_imports("headwater.server.runtime", "import asyncio")


def test_file_check_sees_calls_outside_the_file_module() -> None:
    source = "open(p)\nos.pwritev(fd, b, 0)\nos.fdatasync(fd)\npath.write_bytes(b)\nfiles.open(p)"
    assert file_calls(Path("log/segment.py"), source) == [
        "open",
        "os.pwritev",
        "os.fdatasync",
        "path.write_bytes",
    ]
    assert not file_calls(Path("log/files.py"), source)


def test_size_check_sees_long_files_and_functions() -> None:
    body = "    pass\n" * FUNCTION_LINES_MAX
    assert too_long(f"def f():\n{body}") == ["f: 71 lines"]
    assert too_long("x = 1\n" * (FILE_LINES_MAX + 1)) == ["601 lines"]
    assert not too_long("x = 1\n" * FILE_LINES_MAX)


def test_folder_check_sees_home_and_work_folders() -> None:
    assert all(
        OWN_FOLDER.search(f"see {folder}/someone/notes") for folder in ("/home", "/work", "/root", "/Users")
    )
    assert not OWN_FOLDER.search("src/work/units and https://example.org/home/page")


def test_the_architecture_tells_of_every_module_of_the_log() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| module of `log/` |")[2]
    named = set(re.findall(r"`(\w+)`", table.partition("\n\n")[0]))
    there = {path.stem for path in (ROOT / "src/headwater/log").glob("*.py")} - {"__init__"}
    assert named == there
