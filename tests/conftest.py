"""What all tests share: how hypothesis looks for examples."""

from __future__ import annotations

import os

from hypothesis import settings

# In CI the same examples every time, so that a failure is the change's own; elsewhere new ones with each run.
# A busy machine is no reason to fail, hence no deadline for one example.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, database=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")
