"""Config providers: files, directories, the environment; and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.settings import TABLE
from ottla.connect.worker.config_providers import ConfigProviders, config_providers

FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"


def providers(**given: str) -> ConfigProviders:
    texts = {name.replace("__", "."): value for name, value in given.items()}
    return config_providers(Settings(TABLE, from_mapping(texts)))


def test_values_of_files_directories_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets.properties").write_text("user=ann\npassword=p:w}d\n", encoding="utf-8")
    (tmp_path / "token").write_text("abc", encoding="utf-8")
    monkeypatch.setenv("OTTLA_TEST_KEY", "from the environment")
    file = tmp_path / "secrets.properties"
    found = providers().resolve(
        {
            "a": f"${{file:{file}:user}}:${{file:{file}:password}}",
            "b": f"${{dir:{tmp_path}:token}}",
            "c": "${env:OTTLA_TEST_KEY}",
            "d": "${other:x:y} and $plain",
        }
    )
    assert found == {
        "a": "ann:p:w}d",
        "b": "abc",
        "c": "from the environment",
        "d": "${other:x:y} and $plain",
    }


@pytest.mark.parametrize(
    "text",
    ["${file:/nowhere/x:key}", "${dir:/tmp:../etc/passwd}", "${env:NO_SUCH_KEY_IS_THERE}", "${dir:/tmp:}"],
)
def test_what_is_not_there_is_an_error_that_names_the_setting(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^password="):
        providers().resolve({"password": text})


def test_a_provider_reads_within_its_allowed_paths_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for each in (inside, outside):
        each.mkdir()
        (each / "s.properties").write_text("k=v\n", encoding="utf-8")
    found = providers(
        config__providers="vault",
        config__providers__vault__class=FILE,
        config__providers__vault__param__allowed__paths=str(inside),
    )
    assert found.resolve({"x": f"${{vault:{inside}/s.properties:k}}"}) == {"x": "v"}
    for path in (outside, inside / ".." / "out"):
        with pytest.raises(ConfigError, match=r"allowed\.paths"):
            found.resolve({"x": f"${{vault:{path}/s.properties:k}}"})


def test_an_unknown_class_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class"):
        providers(config__providers="vault", config__providers__vault__class="com.acme.Vault")
