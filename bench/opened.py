"""`python -m bench.opened DIR`: opens a data folder in a process that imports no more than that takes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from headwater.log.store import Store


def main() -> None:
    """Open, print, and leave without writing anything more."""
    before_kib, before_bytes = _resident_kib(), _read_bytes()
    started = time.perf_counter()
    store = Store.open(Path(sys.argv[1]))
    seconds = time.perf_counter() - started
    read_bytes = _read_bytes() - before_bytes
    found = {
        "seconds": seconds,
        "read_bytes": read_bytes,
        "resident_kib": _resident_kib(),
        "resident_before_kib": before_kib,
        "partitions": store.partition_count,
        "records": sum(part.committed_offset for log in store.logs.values() for part in log.partitions),
        "damaged": len(store.damaged),
    }
    print(json.dumps(found))
    if "--close" in sys.argv:
        store.close()
    else:
        store.abandon()


def _resident_kib() -> int:
    return _number("status", "VmRSS")


def _read_bytes() -> int:
    return _number("io", "rchar")


def _number(file: str, name: str) -> int:
    text = Path(f"/proc/self/{file}").read_text(encoding="ascii")
    return int(text.partition(f"{name}:")[2].split()[0])


if __name__ == "__main__":
    main()
