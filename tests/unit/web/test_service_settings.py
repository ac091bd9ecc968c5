"""The services' settings: their tables, and the errors of values that can't be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.config.errors import ConfigError
from ottla.config.setting import Setting, Table
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping, from_words
from ottla.registry import settings as registry
from ottla.registry.service import RegistryService
from ottla.rest import settings as rest
from ottla.schemas.model import CompatibilityLevel
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.server import HttpAddress

TABLES = (registry.TABLE, rest.TABLE)


def registry_settings(words: Sequence[str]) -> Settings:
    return Settings(registry.TABLE, from_words(words))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_every_default_is_allowed_and_reads_back(table: Table) -> None:
    for setting in table.settings.values():
        if setting.default is not None:
            assert setting.default_text is not None
            assert setting.parse(setting.default_text) == setting.default, setting.name
        assert setting.doc.endswith("."), setting.name


@pytest.mark.parametrize("module", [registry, rest])
def test_every_setting_of_a_module_is_in_its_table(module: object) -> None:
    own = [value for value in vars(module).values() if isinstance(value, Setting)]
    settings = [*own, *FRONT_SETTINGS]
    assert {each.name for each in settings} == vars(module)["TABLE"].settings.keys()
    assert len(settings) == len(vars(module)["TABLE"].settings)


def test_values_of_the_registry() -> None:
    settings = registry_settings(
        [
            "kafkastore.topic = _b",
            "schema.compatibility.level=Full_Transitive",
            "host.name=",
            "listeners= a:1,b:2",
        ]
    )
    assert settings[registry.TOPIC] == "_b"
    assert settings[registry.COMPATIBILITY_LEVEL] is CompatibilityLevel.FULL_TRANSITIVE
    assert settings[registry.TIMEOUT_MS] == 10_000
    assert settings[registry.HOST_NAME] is None
    assert settings[registry.LISTENERS] == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("kafkastore.topic=", "String must be non-empty"),
        ("kafkastore.timeout.ms=soon", "Not a number of type LONG"),
        ("kafkastore.timeout.ms=1_000", "Not a number of type LONG"),
        ("kafkastore.timeout.ms=0", "Value must be at least 1"),
        ("kafkastore.topic.replication.factor=32768", "Value must be no more than 32767"),
        ("leader.eligibility=maybe", "Expected value to be either true or false"),
        ("schema.compatibility.level=SOME", "String must be one of (case insensitive): NONE, BACKWARD"),
        ("listeners=", "The list must not be empty"),
    ],
)
def test_a_value_that_can_t_be_is_told_with_its_name(word: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        registry_settings([word])
    assert str(refused.value).startswith(f"--set {word}: {problem}")


def test_settings_of_kafka_clients_are_no_unknown_ones(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafkastore.security.protocol": "SSL", "listeners": "x:1", "no.such.thing": "1"}
    RegistryService(Settings(registry.TABLE, from_mapping(given)))
    assert [each.getMessage() for each in caplog.records] == [
        "unknown settings are ignored keys=no.such.thing"
    ]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://0.0.0.0:8081", "http://127.0.0.1:8081"),
        ("[::1]:8081", "http://[::1]:8081"),
        (":8081", "http://127.0.0.1:8081"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert HttpAddress.parse(text).url == url


@pytest.mark.parametrize("text", ["", "8081", "a:b", "a:70000", "https://a/b:1", "a:-1"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ServiceError, match="is not HOST:PORT"):
        HttpAddress.parse(text)
