"""Settings: which source wins, and what is refused in which words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.errors import InvalidSettings
from headwater.server.config import Settings, describe, load


def file_with(folder: Path, text: str) -> Path:
    path = folder / "headwater.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_bind_loopback() -> None:
    settings = load(None, {}, {})
    assert settings == Settings()
    assert (settings.host, settings.http_port, settings.data) == ("127.0.0.1", 8080, Path("headwater-data"))


def test_later_sources_win(tmp_path: Path) -> None:
    path = file_with(tmp_path, 'host = "127.0.0.2"\nhttp_port = 1001\nlog_level = "debug"\n')
    settings = load(
        path, {"HEADWATER_HTTP_PORT": "1002", "HEADWATER_LOG_LEVEL": "error"}, {"http_port": 1003}
    )
    assert (settings.host, settings.log_level, settings.http_port) == ("127.0.0.2", "error", 1003)


def test_flags_not_given_change_nothing() -> None:
    assert load(None, {"HEADWATER_HTTP_PORT": "1002"}, {"http_port": None}).http_port == 1002


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "http_port = 1001\n")
    assert load(None, {"HEADWATER_CONFIG": str(path)}, {}).http_port == 1001


def test_a_file_named_by_a_flag_wins_over_one_named_by_a_variable(tmp_path: Path) -> None:
    path = file_with(tmp_path, "http_port = 1001\n")
    assert load(path, {"HEADWATER_CONFIG": "missing.toml"}, {}).http_port == 1001


def test_variables_that_links_to_a_service_of_this_name_set_are_passed_over() -> None:
    environment = {
        "HEADWATER_PORT": "tcp://10.0.0.1:8080",
        "HEADWATER_PORT_8080_TCP_ADDR": "10.0.0.1",
        "HEADWATER_SERVICE_HOST": "10.0.0.1",
        "HEADWATER_SERVICE_PORT_HTTP": "8080",
        "PATH": "/usr/bin",
    }
    assert load(None, environment, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('http_port = "80"', ["http_port", "headwater.toml", "'80'", "a whole number from 0 to 65535"]),
        ("http_port = true", ["http_port", "True", "a whole number"]),
        ("http_port = 65536", ["65536", "from 0 to 65535"]),
        ('http_prot = "80"', ["headwater.toml: http_prot", "no such setting", "did you mean http_port"]),
        ("[amqp]\nzzz = 1", ["amqp", "no such setting"]),
        ('log_format = "xml"', ["log_format", "'xml'", "json, plain"]),
        ("data = 3", ["data", "a path"]),
        ('data = ""', ["data", "a path"]),
        ('host = ""', ["host", "text that is not empty"]),
        ("retention_interval_s = 0", ["retention_interval_s", "a number above 0, up to 86400"]),
        ("http_stop_timeout_s = -1", ["http_stop_timeout_s", "a number from 0 to 600"]),
        ("retention_interval_s = nan", ["retention_interval_s", "a number"]),
        ("host = ", ["config", "not valid TOML"]),
    ],
)
def test_a_file_with_a_wrong_value_is_refused(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(file_with(tmp_path, text), {}, {})
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"HEADWATER_HTTP_PORT": "many"}, ["http_port", "HEADWATER_HTTP_PORT is 'many'", "a whole number"]),
        ({"HEADWATER_HTTP_PORT": ""}, ["HEADWATER_HTTP_PORT is ''", "a whole number"]),
        ({"HEADWATER_HTTP_POR": "1"}, ["HEADWATER_HTTP_POR", "no such setting", "did you mean http_port"]),
        ({"HEADWATER_DATA": ""}, ["HEADWATER_DATA is ''", "a path"]),
        ({"HEADWATER_CONFIG": "no/such/file.toml"}, ["cannot read", "no/such/file.toml"]),
    ],
)
def test_a_wrong_variable_is_refused(environment: dict[str, str], words: list[str]) -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(None, environment, {})
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_wrong_flag_is_refused_by_its_own_name() -> None:
    with pytest.raises(InvalidSettings, match=re.escape("--http-port is 99999, expected a whole number")):
        load(None, {}, {"http_port": 99999})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSettings, match="not valid TOML"):
        load(path, {}, {})


def test_every_setting_is_described() -> None:
    described = describe()
    assert [each.name for each in described] == list(Settings.__struct_fields__)
    assert [each.name for each in described if not each.description.endswith(".") or not each.expected] == []
    assert described[2].variable == "HEADWATER_HTTP_PORT"
    assert described[2].flag == "--http-port"


def test_a_setting_that_may_be_absent_is_described_and_refused_as_any_other() -> None:
    described = {each.name: each for each in describe()}
    assert described["admin_user"].expected == "text that is not empty"
    assert described["admin_password_file"].expected == "a path"
    assert load(None, {"HEADWATER_ADMIN_PASSWORD_FILE": "a/b"}, {}).admin_password_file == Path("a/b")
    for variable in ("HEADWATER_ADMIN_USER", "HEADWATER_ADMIN_PASSWORD_FILE", "HEADWATER_SASL_ANONYMOUS"):
        with pytest.raises(InvalidSettings, match=variable):
            load(None, {variable: ""}, {})


def test_truth_values_come_as_words_from_the_environment() -> None:
    settings = load(
        None, {"HEADWATER_SASL_ANONYMOUS": "false", "HEADWATER_SASL_PLAIN_WITHOUT_TLS": "true"}, {}
    )
    assert (settings.sasl_anonymous, settings.sasl_plain_without_tls) == (False, True)
