# SPDX-License-Identifier: MIT
"""Settings: order of sources, errors that name the key, secrets that stay hidden, generated texts that are current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from peel_core import Secret
from peel_gateway.settings import Settings, SettingsError, load_settings, settings_table, with_store
from peel_gateway.settings.table import SAMPLE_NAME, help_rows, sample_toml

GATEWAY = Path(__file__).parents[1]


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_defaults_come_from_the_table() -> None:
    assert load_settings(None, {}) == Settings()


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = write(tmp_path / "g.toml", '[mqtt]\nhost = "from-file"\nport = 1900\n')
    settings = load_settings(file, {"PEEL_GATEWAY_MQTT_HOST": "from-env", "OTHER": "ignored"})
    assert (settings.mqtt_host, settings.mqtt_port, settings.http_port) == ("from-env", 1900, 8420)


def test_a_gateway_is_named_by_its_client_id_unless_it_has_a_name() -> None:
    assert Settings().gateway_name == "main"
    assert Settings(mqtt_client_id="west").gateway_name == "west"
    assert (
        load_settings(None, {"PEEL_GATEWAY_MQTT_CLIENT_ID": "a b", "PEEL_GATEWAY_MQTT_NAME": "x"}).gateway_name == "x"
    )


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    file = write(tmp_path / "g.toml", '[store]\npath = "data/x.sqlite"\n')
    assert load_settings(file, {}).store_path == tmp_path / "data/x.sqlite"
    assert load_settings(None, {"PEEL_GATEWAY_STORE_PATH": "x.sqlite"}).store_path == Path("x.sqlite")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mqtt]\nhots = "x"', "mqtt.hots: unknown setting; did you mean mqtt.host?"),
        ('[mqtp]\nhost = "x"', "[mqtp]: unknown section; did you mean mqtt?"),
        ('mqtt = "x"', "mqtt must be a section"),
        ('[mqtt]\nport = "1883"', "mqtt.port: must be a whole number, not '1883'"),
        ("[mqtt]\nport = 0", "mqtt.port: must be between 1 and 65,535, not 0"),
        ("[mqtt]\nport = true", "mqtt.port: must be a whole number"),
        ("[batch]\nseconds = nan", "batch.seconds: must be between"),
        ('[mqtt]\ntls = "yes"', "mqtt.tls: must be true or false, not 'yes'"),
        ("[mqtt]\nhost = 5", "mqtt.host: must be text, not 5"),
        ('[http]\nproxy = "10.0.0.1/8"', "http.proxy: 10.0.0.1/8 has host bits set; give the proxy's address"),
        ('[log]\nlevel = "loud"', "log.level: must be one of info, warning, error"),
        ("[mqtt", "not TOML"),
        ('[mqtt]\nca = "ca.pem"', "mqtt.tls: is false"),
        ('[mqtt]\ntls = true\nkey = "k.pem"', "mqtt.key: is set without mqtt.certificate"),
        ('[mqtt]\nname = "a/b"', "mqtt.name: 'a/b' cannot be part of a topic"),
        ('[mqtt]\nname = "+"', "mqtt.name: '+' cannot be part of a topic"),
        ('[mqtt]\nname = "line\\nbreak"', "mqtt.name: 'line\\nbreak' cannot be part of a topic"),
        ('[mqtt]\nclient_id = "site 7"', "mqtt.name: 'site 7' (from mqtt.client_id) cannot be part of a topic"),
        ('[mqtt]\ntls = true\nca = "none.pem"', "mqtt.ca: cannot read"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=r".") as caught:
        load_settings(write(tmp_path / "g.toml", text), {})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PEEL_GATEWAY_MQTT_PROT", "1", "did you mean PEEL_GATEWAY_MQTT_PORT?"),
        ("PEEL_GATEWAY_MQTT_PORT", "many", "PEEL_GATEWAY_MQTT_PORT: must be a whole number, not 'many'"),
        ("PEEL_GATEWAY_MQTT_TLS", "1", "PEEL_GATEWAY_MQTT_TLS: must be true or false"),
    ],
)
def test_errors_name_the_variable(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {variable: value})
    assert said in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(tmp_path / "none.toml", {})


def test_secrets_hide_and_need_a_private_file(tmp_path: Path) -> None:
    text = '[mqtt]\nuser = "u"\npassword = "tell-nobody"\n'
    settings = load_settings(write(tmp_path / "g.toml", text), {})
    assert settings.mqtt_password == Secret(b"tell-nobody")
    assert "tell-nobody" not in repr(settings)
    with pytest.raises(SettingsError, match=r"mqtt\.password but others can read it \(mode 0644\)") as caught:
        load_settings(write(tmp_path / "open.toml", text, 0o644), {})
    assert "tell-nobody" not in str(caught.value)


@pytest.mark.parametrize("url", ["postgresql://u:tell-nobody@h/d", "postgresql://h/d?user=u&password=tell-nobody"])
def test_a_password_is_not_taken_from_a_command_line(url: str) -> None:
    with pytest.raises(SettingsError, match="PGPASSFILE") as caught:
        with_store(Settings(), url)
    assert "tell-nobody" not in str(caught.value)
    assert with_store(Settings(), "postgresql://u@h/d").store_url == Secret(b"postgresql://u@h/d")


def test_a_wrong_type_of_secret_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path / "g.toml", "[http]\ntoken = 918273645\n"), {})
    assert "918273645" not in str(caught.value)


def test_secret_files(tmp_path: Path) -> None:
    token = write(tmp_path / "token", "\ufeff0123456789abcdef\r\n")  # as some editors write it
    assert load_settings(None, {"PEEL_GATEWAY_HTTP_TOKEN_FILE": str(token)}).http_token == Secret(b"0123456789abcdef")
    with pytest.raises(SettingsError, match="both are set"):
        load_settings(None, {"PEEL_GATEWAY_HTTP_TOKEN_FILE": str(token), "PEEL_GATEWAY_HTTP_TOKEN": "x" * 16})
    token.chmod(0o640)
    with pytest.raises(SettingsError, match="chmod 600"):
        load_settings(None, {"PEEL_GATEWAY_HTTP_TOKEN_FILE": str(token)})
    with pytest.raises(SettingsError, match="cannot read"):
        load_settings(None, {"PEEL_GATEWAY_HTTP_TOKEN_FILE": str(tmp_path / "none")})


def test_the_sample_is_current_and_holds_the_defaults(tmp_path: Path) -> None:
    committed = (GATEWAY / SAMPLE_NAME).read_text()
    assert committed == sample_toml(), "run scripts/docs"
    keys = "|".join(row.key for row in settings_table())
    uncommented = re.sub(rf"^# ((?:{keys}) = )", r"\1", committed, flags=re.MULTILINE)
    settings = load_settings(write(tmp_path / "g.toml", uncommented), {})
    relative = {"fleet_folder": tmp_path / "fleet", "store_path": tmp_path / "peel.sqlite"}
    for row in settings_table():
        assert getattr(settings, row.field) == relative.get(row.field, row.default), row.name


def test_the_alert_of_the_sample_can_be_used(tmp_path: Path) -> None:
    _, _, sample = (GATEWAY / SAMPLE_NAME).read_text().partition("# [[alert]]\n")
    text = "[[alert]]\n" + re.sub(r"^#   ", "", sample, flags=re.MULTILINE)
    (alert,) = load_settings(write(tmp_path / "g.toml", text), {}).alerts
    assert (alert.name, alert.condition, alert.threshold, alert.seconds) == ("too-hot", "above", 26, 3600)


def test_default_paths_are_relative_to_the_file_too(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path / "g.toml", ""), {})
    assert settings.fleet_folder == tmp_path / "fleet"
    assert settings.store_path == tmp_path / "peel.sqlite"
    environment = {"PEEL_GATEWAY_STORE_PATH": "here.sqlite"}
    assert load_settings(tmp_path / "g.toml", environment).store_path == Path("here.sqlite")


def test_the_help_names_every_setting() -> None:
    said = dict(help_rows())
    assert all(row.help in said[row.name] for row in settings_table())
