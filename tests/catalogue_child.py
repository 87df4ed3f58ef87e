"""A process that adds users to a catalogue and writes a line to a pipe for each that was answered.

`python catalogue_child.py FOLDER [COUNT]`: user names go on from the number of users that are there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from headwater.encoding.scram import ITERATIONS_MIN
from headwater.server.catalogue import Catalogue
from headwater.server.security.permissions import ALL


async def add_users(catalogue: Catalogue, count: int) -> None:
    """Add that many users, one after the other."""
    for number in range(len(catalogue.state.users), len(catalogue.state.users) + count):
        name = f"user-{number}"
        await catalogue.add_user(name, f"password of {name}", permissions={"/": ALL})
        os.write(1, f"added {name}\n".encode())


if __name__ == "__main__":
    opened = Catalogue.open(Path(sys.argv[1]), iterations=ITERATIONS_MIN, first_user=lambda: None)
    asyncio.run(add_users(opened, int(sys.argv[2]) if len(sys.argv) > 2 else 100_000))
    opened.close()
