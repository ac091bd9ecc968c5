"""Settings of services: from a file and from words, each with a clear error when it can't be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.registry import settings as registry
from ottla.registry.service import RegistryService
from ottla.schemas.model import CompatibilityLevel
from ottla.web.errors import ServiceError
from ottla.web.server import HttpAddress
from ottla.web.settings import Settings, given_values


def test_words_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "registry.properties"
    file.write_text("kafkastore.topic=_a\nschema.compatibility.level : full\n# no setting\n")
    given = given_values(file, ["kafkastore.topic = _b"])
    settings = Settings(registry.SETTINGS, given)
    assert settings[registry.TOPIC] == "_b"
    assert settings[registry.COMPATIBILITY_LEVEL] is CompatibilityLevel.FULL
    assert settings[registry.TIMEOUT_MS] == 10_000
    assert (settings.given("kafkastore.topic"), settings.given("host.name")) == (True, False)


@pytest.mark.parametrize(
    "word, problem",
    [
        ("kafkastore.topic=", "kafkastore.topic=: must not be empty"),
        ("kafkastore.timeout.ms=soon", "must be a whole number"),
        ("kafkastore.timeout.ms=0", "must be from 1"),
        ("leader.eligibility=maybe", "must be true or false"),
        ("schema.compatibility.level=SOME", "must be one of NONE, BACKWARD"),
        ("schema.compatibility.level", "write it as key=value"),
        ("=x", "write it as key=value"),
    ],
)
def test_a_value_that_can_t_be_is_told_with_its_name(word: str, problem: str) -> None:
    with pytest.raises(ServiceError) as refused:
        Settings(registry.SETTINGS, given_values(None, [word]))
    assert word.partition("=")[0] in str(refused.value)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "content, problem",
    [(b"a=\\u12", "properties:1: "), (b"\xff\xfe", "is not UTF-8"), (None, "No such file")],
)
def test_a_file_that_can_t_be_read_is_told(content: bytes | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ServiceError, match=problem):
        given_values(file, [])


def test_what_nobody_knows_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    RegistryService.from_given(
        {"kafkastore.security.protocol": "SSL", "listeners": "x", "no.such.thing": "1"}
    )
    assert [each.getMessage() for each in caplog.records] == [
        "the setting no.such.thing is unknown to ottla registry and is ignored"
    ]


@pytest.mark.parametrize(
    "text, url",
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
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ServiceError, match="is not HOST:PORT"):
        HttpAddress.parse(text)
