"""Settings of the server: defaults, then the TOML file, then HEADWATER_… variables, then flags, in rising order."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, inspect

from headwater.client.address import CLIENT_VARIABLES
from headwater.encoding.scram import ITERATIONS_MAX, ITERATIONS_MIN
from headwater.errors import InvalidSettings

__all__ = ["SettingDescription", "Settings", "describe", "load"]

PREFIX = "HEADWATER_"
CONFIG_VARIABLE = "HEADWATER_CONFIG"

# A service named "headwater" makes Kubernetes and container links set such variables for their neighbours.
_SERVICE_LINK = re.compile(r"HEADWATER_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP)\w*)?)")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of `headwater serve`; its description is what the documentation prints."""

    data: Annotated[Path, Meta(description="Folder that holds the logs; made when it is missing.")] = Path(
        "headwater-data"
    )
    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address all doors listen on; the loopback address unless told otherwise.",
        ),
    ] = "127.0.0.1"
    http_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the HTTP door; 0 takes a free one.")
    ] = 8080
    http_tls_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Port of the HTTP door with TLS, open where tls_certificate_file is set; 0 takes a free one.",
        ),
    ] = 8443
    stream_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the stream door; 0 takes a free one.")
    ] = 5552
    stream_tls_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Port of the stream door with TLS, open where tls_certificate_file is set; 0 takes a free one.",
        ),
    ] = 5551
    amqp_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the AMQP door; 0 takes a free one.")
    ] = 5672
    amqp_tls_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="Port of the AMQP door with TLS, open where tls_certificate_file is set; 0 takes a free one.",
        ),
    ] = 5671
    tls_certificate_file: Annotated[
        Path | None,
        Meta(
            description="The server's certificate with its chain, PEM; opens the TLS ports; read again on SIGHUP."
        ),
    ] = None
    tls_key_file: Annotated[
        Path | None, Meta(description="Key of tls_certificate_file, PEM, where that does not hold it.")
    ] = None
    tls_client_ca_file: Annotated[
        Path | None,
        Meta(description="Who signs the client certificates that stand for users (EXTERNAL), PEM."),
    ] = None
    stream_advertised_host: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)] | None,
        Meta(description="Host that stream clients are told to connect to; else the one they have reached."),
    ] = None
    stream_advertised_port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        Meta(description="Port that stream clients are told to connect to; else the one they have reached."),
    ] = None
    stream_tls_advertised_host: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)] | None,
        Meta(description="The same as stream_advertised_host for clients with TLS."),
    ] = None
    stream_tls_advertised_port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        Meta(description="The same as stream_advertised_port for clients with TLS."),
    ] = None
    stream_announced_version: Annotated[
        str,
        Meta(
            pattern=r"^\d{1,4}\.\d{1,4}\.\d{1,4}$",
            description="RabbitMQ version that stream clients are told; they choose by it what they dare to use.",
        ),
    ] = "4.0.5"
    stream_connections_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Connections of the stream door; one more is closed at once."),
    ] = 10_000
    stream_frame_bytes_max: Annotated[
        int,
        Meta(
            ge=8192,
            le=1 << 20,
            description="Largest frame that stream clients may send; what they send above it closes the connection.",
        ),
    ] = 1 << 20
    stream_heartbeat_s: Annotated[
        int,
        Meta(ge=0, le=3600, description="Heartbeat proposed to stream clients, in seconds; 0 proposes none."),
    ] = 60
    stream_handshake_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="Seconds that a stream client may take for each step until it has opened.",
        ),
    ] = 10.0
    amqp_connections_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Connections of the AMQP door; one more is closed at once."),
    ] = 10_000
    amqp_frame_bytes_max: Annotated[
        int,
        Meta(
            ge=512,
            le=1 << 20,
            description="Largest frame that AMQP clients may send; what they send above it closes the connection.",
        ),
    ] = 1 << 20
    amqp_credit_count: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Messages that an AMQP sender may have on their way before one of them is settled.",
        ),
    ] = 10_000
    cursor_flush_ms: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="How often is written what consumers of subscriptions and groups have settled; what was not"
            " written when the server fails comes again.",
        ),
    ] = 50
    amqp_idle_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            le=86400,
            description="Seconds of silence after which an AMQP client is cut off; 0 never does that.",
        ),
    ] = 60.0
    amqp_handshake_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=600,
            description="Seconds that an AMQP client may take for each step until it has opened.",
        ),
    ] = 10.0
    amqp_websocket_origin: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="Origin of web pages that may connect by AMQP over WebSocket besides the server's own,"
            " as https://example.org; * lets those of everybody."
        ),
    ] = None
    auto_create: Annotated[
        bool,
        Meta(
            description="Whether a log is made when somebody who may make it sends to a name that is missing;"
            " stream clients are told that it is missing all the same."
        ),
    ] = True
    auto_create_partitions: Annotated[
        int, Meta(ge=1, le=1000, description="Partitions of a log that was made so.")
    ] = 1
    auto_create_pattern: Annotated[
        str | None, Meta(description="Regular expression that the whole name of such a log must match.")
    ] = None
    log_format: Annotated[
        Literal["plain", "json"],
        Meta(description="Form of the lines on standard error: for people, or for programs."),
    ] = "plain"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least severe kind of line that is logged."),
    ] = "info"
    retention_interval_s: Annotated[
        float, Meta(gt=0, le=86400, description="Seconds between two rounds of removing expired segments.")
    ] = 10.0
    http_connections_max: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Connections of the HTTP door; one more is closed at once."),
    ] = 10_000
    http_header_bytes_max: Annotated[
        int,
        Meta(
            ge=1024,
            le=1 << 16,
            description="Bytes of a request's first line, and of each of its headers, which are at most 128.",
        ),
    ] = 8190
    http_event_bytes_max: Annotated[
        int,
        Meta(
            ge=1024,
            le=64 << 20,
            description="Largest body of a request that publishes events; each event fits into a chunk besides.",
        ),
    ] = 4 << 20
    http_event_heartbeat_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Seconds between comments that show that an event stream is alive; rights are looked at anew.",
        ),
    ] = 15.0
    http_default_log: Annotated[
        str, Meta(min_length=1, description="Log that POST /events publishes to.")
    ] = "events"
    http_idle_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Seconds within which a request with its headers must have come, or the connection is closed.",
        ),
    ] = 60.0
    http_stop_timeout_s: Annotated[
        float,
        Meta(
            ge=0, le=600, description="Seconds that HTTP requests under way may take when the server stops."
        ),
    ] = 5.0
    admin_user: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Administrator that the first start makes in place of guest."),
    ] = None
    admin_password_file: Annotated[
        Path | None, Meta(description="File with the password of admin_user; read by the first start alone.")
    ] = None
    scram_iterations: Annotated[
        int,
        Meta(
            ge=ITERATIONS_MIN,
            le=ITERATIONS_MAX,
            description="Rounds that turn a new password into its verifier; clients of SCRAM do as many.",
        ),
    ] = 15_000
    sasl_anonymous: Annotated[
        bool, Meta(description="Whether peers on this machine may come as guest without a password.")
    ] = True
    sasl_plain_without_tls: Annotated[
        bool, Meta(description="Whether passwords may cross a network unencrypted.")
    ] = False
    sasl_failure_delay_s: Annotated[
        float, Meta(ge=0, le=60, description="Seconds that a peer waits for the answer to a wrong password.")
    ] = 0.5
    password_cache_s: Annotated[
        float,
        Meta(ge=0, le=86400, description="Seconds for which a right password need not be derived again."),
    ] = 300.0
    password_cache_entries_max: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="Users whose right password is remembered; 0 remembers none."),
    ] = 1000


class SettingDescription(msgspec.Struct, frozen=True):
    """One setting as the documentation and error messages name it."""

    name: str
    variable: str
    flag: str
    expected: str
    default: object
    description: str


class _Given(msgspec.Struct, frozen=True):
    """A value as one source gave it; values of variables and flags may be text of a number or a truth value."""

    name: str
    value: object
    source: str
    is_text: bool


def load(config_file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Merge all sources; raises InvalidSettings naming the setting, where it was given, and what is expected."""
    path = config_file or _config_from(environment)
    chosen: dict[str, Any] = {}
    for given in (*_in_file(path), *_in_environment(environment), *_in_flags(flags)):
        chosen[given.name] = _converted(given)
    return Settings(**chosen)


def describe() -> list[SettingDescription]:
    """All settings in the order of the class, with their names in each source."""
    return [
        SettingDescription(
            name=name,
            variable=_variable(name),
            flag=_flag(name),
            expected=_expected(_bare(field.type)),
            default=field.default,
            description=_description(field.type),
        )
        for name, field in _FIELDS.items()
    ]


def _config_from(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def _in_file(path: Path | None) -> Iterator[_Given]:
    if path is None:
        return
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings("config", f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings("config", f"{path} is not valid TOML: {error}") from error
    for name, value in table.items():
        yield _Given(_known(name, f"{path}: {name}"), value, f"{path}: {name}", is_text=False)


def _in_environment(environment: Mapping[str, str]) -> Iterator[_Given]:
    for variable in sorted(environment):
        if (
            not variable.startswith(PREFIX)
            or variable == CONFIG_VARIABLE
            or variable in CLIENT_VARIABLES
            or _SERVICE_LINK.fullmatch(variable)
        ):
            continue
        name = variable.removeprefix(PREFIX).lower()
        yield _Given(_known(name, variable), environment[variable], variable, is_text=True)


def _in_flags(flags: Mapping[str, object]) -> Iterator[_Given]:
    for name, value in flags.items():
        if value is not None:
            yield _Given(_known(name, _flag(name)), value, _flag(name), is_text=True)


def _known(name: str, source: str) -> str:
    if name in _FIELDS:
        return name
    near = difflib.get_close_matches(name, _FIELDS, n=1)
    hint = f"did you mean {near[0]}" if near else f"known are {', '.join(_FIELDS)}"
    raise InvalidSettings(name, f"{source} is given, but there is no such setting ({hint})")


def _converted(given: _Given) -> object:
    kind = _ANNOTATIONS[given.name]
    try:
        return msgspec.convert(given.value, kind, strict=not given.is_text, dec_hook=_path_from)
    except msgspec.ValidationError as error:
        expected = _expected(_bare(_FIELDS[given.name].type))
        raise InvalidSettings(
            given.name, f"{given.source} is {given.value!r}, expected {expected}"
        ) from error


def _path_from(kind: type[Any], value: object) -> Path:
    if kind is Path and isinstance(value, str | Path) and str(value):
        return Path(value)
    raise msgspec.ValidationError("not a path")


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType(types=(given, inspect.NoneType())):
            return _expected(given)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType(gt=None, ge=low, le=high):
            return f"a number from {low} to {high}"
        case inspect.FloatType(gt=low, le=high):
            return f"a number above {low}, up to {high}"
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.CustomType(cls=cls) if cls is Path:
            return "a path"
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return f"text of the form {pattern.strip('^$')}"
    return "text that is not empty"


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _description(kind: inspect.Type) -> str:
    schema = kind.extra_json_schema if isinstance(kind, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _fields() -> dict[str, inspect.Field]:
    kind = inspect.type_info(Settings)
    assert isinstance(kind, inspect.StructType)
    return {field.name: field for field in kind.fields}


_FIELDS = _fields()
_ANNOTATIONS = {field.name: field.type for field in msgspec.structs.fields(Settings)}
