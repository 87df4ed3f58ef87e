"""What lets requests in, on a catalogue of its own: for tests of applications that need nothing of the server's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from headwater.server.catalogue import Catalogue
from headwater.server.http.authentication import BasicAuthentication
from headwater.server.http.serving import HttpFigures, Serving
from headwater.server.security.access import Access
from headwater.server.security.sasl import Sasl
from tests.security_material import authenticator, catalogue

__all__ = ["serving", "serving_of"]


@contextlib.contextmanager
def serving() -> Iterator[Serving]:
    """With guest as its only user."""
    with TemporaryDirectory() as folder, catalogue(Path(folder)) as users, serving_of(users) as made:
        yield made


@contextlib.contextmanager
def serving_of(users: Catalogue) -> Iterator[Serving]:
    """With the users of a catalogue."""
    with authenticator(users) as doorman:
        basic = BasicAuthentication(doorman, Sasl(doorman), failure_delay_s=0)
        yield Serving(Access(users), basic, HttpFigures())
