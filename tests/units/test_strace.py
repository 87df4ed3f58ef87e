"""What the kernel saw: no confirm leaves the process before the data and the names it depends on are synced."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("confirming_child.py")
COUNT = 60
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>.*= (-?\d+)")
_RESULT = re.compile(r"\) += (-?\d+)")
_FD_PATH = re.compile(r"^\d+<([^>]*)>")


class Trace:
    """System calls in the order in which they began, and in which they ended."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._begun: dict[tuple[str, str], str] = {}

    def events(self) -> Iterator[tuple[str, str, str]]:
        """`begin` or `end`, the call, and its arguments; a call that failed has no end."""
        for line in self._lines:
            if resumed := _RESUMED.match(line):
                process, call, result = resumed.groups()
                arguments = self._begun.pop((process, call), "")
                if int(result) >= 0:
                    yield "end", call, arguments
            elif begun := _CALL.match(line):
                process, call, arguments = begun.groups()
                yield "begin", call, arguments
                result = _RESULT.findall(arguments)
                if "<unfinished ...>" in arguments:
                    self._begun[process, call] = arguments
                elif result and int(result[-1]) >= 0:
                    yield "end", call, arguments


def path_of(arguments: str) -> str:
    found = _FD_PATH.match(arguments)
    return found.group(1) if found else ""


def check_confirms(trace: Trace, suffix: str = ".segment") -> tuple[int, int]:
    """Hold every confirm to what was synced before it; gives the number of confirms and of files made."""
    written, made = set[str](), set[str]()
    confirms = made_count = 0
    for when, call, arguments in trace.events():
        path = path_of(arguments)
        if call in ("pwritev", "pwrite64", "pwritev2") and path.endswith(suffix):
            written.add(path)  # from its beginning on: a sync under way does not cover it
        elif call in ("fdatasync", "fsync") and when == "end":
            written.discard(path)
            made = {name for name in made if str(Path(name).parent) != path}
        elif call == "openat" and when == "end" and "O_CREAT" in arguments:
            name = arguments.split('"')[1]
            if name.endswith((".segment", ".journal")):
                made.add(name)
            made_count += name.endswith(suffix)
        elif call == "write" and when == "begin" and '"confirmed ' in arguments:
            partition = arguments.partition('"confirmed ')[2].split()[0]
            early = {name for name in written if Path(name).parent.name in (partition, "journal")}
            assert not early, f"a confirm left before the sync of {early}"
            nameless = {name for name in made if Path(name).parent.name in (partition, "journal")}
            assert not nameless, f"a confirm left before the sync of the folder of {nameless}"
            confirms += 1
    return confirms, made_count


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed (apt-get install strace)")
@pytest.mark.parametrize(("direct_files_max", "suffix"), [(8, ".segment"), (1, ".journal")])
def test_no_confirm_leaves_before_its_file_and_its_folder_are_synced(
    tmp_path: Path, direct_files_max: int, suffix: str
) -> None:
    output = tmp_path / "trace"
    calls = "trace=openat,write,pwrite64,pwritev,pwritev2,fdatasync,fsync"
    folder = tmp_path / "data"
    folder.mkdir()
    command = ["strace", "-f", "-y", "-s", "24", "-e", calls, "-o", str(output), sys.executable, str(CHILD)]
    finished = subprocess.run(
        [*command, str(folder), str(COUNT), "1", str(direct_files_max)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    if b"ptrace" in finished.stderr and finished.returncode:
        pytest.skip("strace may not trace processes here")
    assert finished.returncode == 0, finished.stderr.decode()
    confirms, made = check_confirms(Trace(output.read_text()), suffix)
    assert confirms == finished.stdout.count(b"confirmed") == 2 * COUNT
    assert made > 2 if suffix == ".segment" else made >= 1


def test_the_check_itself_sees_a_confirm_that_came_too_early() -> None:
    early = '7 pwritev(5</d/0/0.segment>, [{...}], 1, 64) = 10\n7 write(1<pipe:[1]>, "confirmed 0 0 1\\n", 16) = 16\n'
    with pytest.raises(AssertionError, match="before the sync of"):
        check_confirms(Trace(early))
    racing = (
        "7 fdatasync(5</d/0/0.segment> <unfinished ...>\n"
        '8 write(1<pipe:[1]>, "confirmed 0 0 1\\n", 16) = 16\n'
        "7 <... fdatasync resumed>) = 0\n"
    )
    with pytest.raises(AssertionError, match="before the sync of"):
        check_confirms(Trace("7 pwritev(5</d/0/0.segment>, [{...}], 1, 64) = 10\n" + racing))
    unnamed = '7 openat(AT_FDCWD, "/d/0/0.segment", O_RDWR|O_CREAT|O_EXCL, 0640) = 5</d/0/0.segment>\n'
    with pytest.raises(AssertionError, match="folder"):
        check_confirms(Trace(unnamed + '8 write(1<pipe:[1]>, "confirmed 0 0 1\\n", 16) = 16\n'))
