"""HTTP basic authentication: from where passwords are taken, and what happens when too many come."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from headwater.server.http.answers import Refused, json_answer
from headwater.server.http.authentication import BasicAuthentication
from headwater.server.security import passwords
from headwater.server.security.sasl import Sasl
from headwater.server.security.users import Role
from tests.security_material import authenticator, catalogue

FAR = "192.0.2.7"
NEAR = "127.0.0.1"


def ask(
    folder: Path, user: str, password: str, *, remote: str, allows_plain: bool = False
) -> tuple[int, str]:
    """Status and user or error for a peer that comes from this address."""

    async def conversation() -> tuple[int, str]:
        with catalogue(folder) as users:
            if "ada" not in users.state.users:
                await users.add_user("ada", "pencil", roles=[Role.MONITOR])
            with authenticator(users) as doorman:
                sasl = Sasl(doorman, allows_anonymous=True, allows_plain_without_tls=allows_plain)
                basic = BasicAuthentication(doorman, sasl, failure_delay_s=0)

                async def who(request: web.Request) -> web.Response:
                    try:
                        identity = await basic.identify(request.clone(remote=remote))
                    except Refused as refused:
                        return refused.answer()
                    return json_answer({"error": identity.user})

                application = web.Application()
                application.router.add_get("/", who)
                credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
                headers = {"Authorization": f"Basic {credentials}"}
                async with (
                    TestClient(TestServer(application)) as client,
                    client.get("/", headers=headers) as answer,
                ):
                    return answer.status, (await answer.json())["error"]

    return asyncio.run(conversation())


def test_a_right_password_from_this_machine_is_an_identity(tmp_path: Path) -> None:
    assert ask(tmp_path, "ada", "pencil", remote=NEAR) == (200, "ada")
    assert ask(tmp_path, "ada", "pen:cil", remote=NEAR) == (401, "not_authorized")


def test_passwords_are_not_taken_unencrypted_from_afar_unless_allowed(tmp_path: Path) -> None:
    assert ask(tmp_path, "ada", "pencil", remote=FAR) == (403, "forbidden")
    assert ask(tmp_path, "ada", "pencil", remote=FAR, allows_plain=True) == (200, "ada")


def test_guest_comes_from_this_machine_alone(tmp_path: Path) -> None:
    assert ask(tmp_path, "guest", "guest", remote=NEAR) == (200, "guest")
    assert ask(tmp_path, "guest", "guest", remote=FAR, allows_plain=True) == (401, "not_authorized")


def test_who_comes_when_too_many_passwords_wait_is_asked_to_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "CHECKS_WAITING_MAX", 0)
    assert ask(tmp_path, "ada", "pencil", remote=NEAR) == (503, "service_unavailable")
