"""TLS for all doors: the server's certificate, and whose client certificates prove a user (SASL EXTERNAL)."""

from __future__ import annotations

import ssl
from pathlib import Path

from headwater.errors import InvalidSettings

__all__ = ["ServerTls"]


class ServerTls:
    """TLS 1.2 or newer. With `client_ca`, clients may show a certificate that it signed; they need not.

    Listeners keep one context for as long as they listen. Each handshake is handed to the one made of the files as
    they were read last, so that connections that are open go on with what they have.
    """

    def __init__(self, certificate: Path, key: Path | None, client_ca: Path | None) -> None:
        self._files = certificate, key, client_ca
        self._current = _context(*self._files)
        self.context = _context(*self._files)
        self.context.sni_callback = self._choose
        """For listeners; asked for each handshake, whether or not the client names a host."""

    def reload(self) -> None:
        """Read the files again; if they are no good, raises `InvalidSettings` and goes on with the old ones."""
        self._current = _context(*self._files)

    def _choose(self, connection: ssl.SSLObject, _host: str | None, _of: ssl.SSLContext) -> None:
        connection.context = self._current


def _context(certificate: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InvalidSettings("tls_certificate_file", _reason(error, certificate, key)) from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidSettings("tls_client_ca_file", _reason(error, client_ca, None)) from error
        context.verify_mode = ssl.CERT_OPTIONAL
        # Who resumes a session shows no certificate again, and an authority that was withdrawn would still count.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    return context


def _no_password() -> str:
    # Else OpenSSL asks on the terminal, and the server waits for ever.
    raise ValueError("the key is encrypted; give it without a password, readable by this user alone")


def _reason(error: Exception, file: Path, key: Path | None) -> str:
    files = str(file) if key is None else f"{file} with the key {key}"
    if isinstance(error, ssl.SSLError):
        said = (error.reason or "no PEM data in it").replace("_", " ").lower()
        return f"cannot use {files}: {said}"
    return f"cannot read {files}: {getattr(error, 'strerror', None) or error}"
