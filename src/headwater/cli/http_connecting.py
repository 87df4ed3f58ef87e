"""What commands share that ask the HTTP door of a server: where it is, and as whom they ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.connecting import login_password, tls_context, warn_of_password

if TYPE_CHECKING:  # at run time these are imported when a command connects
    from headwater.client.http_api import HttpApi

__all__ = [
    "Asking",
    "CaFile",
    "CertificateFile",
    "Login",
    "LoginPasswordFile",
    "Url",
    "asking",
    "http_api",
]


def _option(help_: str, *names: str, variable: str | None = None, shown: str | bool = False) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=help_, envvar=variable, show_default=shown, rich_help_panel="Connection")


Url = Annotated[
    str | None,
    _option(
        "HTTP door of the server: http://user@host:port, or https://.",
        "--url",
        variable="HEADWATER_HTTP_URL",
        shown="http://127.0.0.1:8080",
    ),
]
Login = Annotated[
    str | None,
    _option(
        "As whom to ask; the password is asked for.", "--login", variable="HEADWATER_USER", shown="guest"
    ),
]
LoginPasswordFile = Annotated[
    Path | None,
    _option(
        "File with the password of that user.", "--login-password-file", variable="HEADWATER_PASSWORD_FILE"
    ),
]
CaFile = Annotated[
    Path | None,
    _option("Who signs the server's certificate, PEM.", "--ca-file", shown="those the system trusts"),
]
CertificateFile = Annotated[
    Path | None,
    _option("Certificate of the user with its key, PEM, in place of a password.", "--certificate-file"),
]


def http_api(
    url: str | None,
    login: str | None,
    login_password_file: Path | None,
    ca_file: Path | None,
    certificate_file: Path | None,
) -> HttpApi:
    """The HTTP door that these options name; raises `InvalidSettings`."""
    from headwater.client import address as a
    from headwater.client.http_api import HttpApi
    from headwater.errors import InvalidSettings

    parts = a.parse_url(url or f"http://127.0.0.1:{a.HTTP_PORT}", a.HTTP_SCHEMES)
    if parts.vhost is not None:
        raise InvalidSettings("url", "it takes nothing behind the port")
    if url is not None:
        warn_of_password(url, parts.password, "HEADWATER_HTTP_URL", "--login-password-file")
    is_encrypted = parts.is_encrypted or ca_file is not None or certificate_file is not None
    context = tls_context(ca_file, certificate_file) if is_encrypted else None
    user = login or parts.user
    address = a.Address(parts.host, parts.port, tls=context)
    if certificate_file is not None and user is None:
        return HttpApi(address, None)
    given = parts.password if user == parts.user else None
    password = login_password(user, given, login_password_file, "--login-password-file")
    return HttpApi(address, a.Credentials(user or "guest", password))


class Asking:
    """What is in one vhost, as a server tells of it; what is refused raises a `HeadwaterError`."""

    def __init__(self, api: HttpApi, vhost: str) -> None:
        self._api = api
        self._where = {"vhost": vhost}

    def all(self, what: str, **where: str) -> list[dict[str, Any]]:
        """All that the user sees of a kind, in the order of the server."""
        return list(self._api.pages(f"/{what}", what, {**self._where, **where}))

    def ask(self, method: str, *parts: str, body: object = None) -> dict[str, Any]:
        """Ask for something of what the parts of a path name."""
        from headwater.client.http_api import path_of

        answer: dict[str, Any] = self._api.ask(method, path_of(*parts), body, self._where)
        return answer


def asking(
    *,
    vhost: Annotated[
        str, typer.Option(help="Virtual host.", envvar="HEADWATER_VHOST", rich_help_panel="Connection")
    ] = "/",
    url: Url = None,
    login: Login = None,
    login_password_file: LoginPasswordFile = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
) -> Asking:
    """The server that these options name."""
    return Asking(http_api(url, login, login_password_file, ca_file, certificate_file), vhost)
