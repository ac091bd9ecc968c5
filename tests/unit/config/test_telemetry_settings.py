"""Settings of telemetry: the collector's URL and headers, OpenTelemetry's own variables."""

from __future__ import annotations

import pytest

from ottla.broker.config import BROKER_TABLE
from ottla.cli.servers.given_settings import given_from
from ottla.config.errors import ConfigError
from ottla.config.setting import InvalidValue, Table
from ottla.config.telemetry_settings import OTLP_ENDPOINT, OtlpTarget, parse_headers


@pytest.mark.parametrize("text", ["http://127.0.0.1:4318", "https://collector/base/", "http://[::1]:4318"])
def test_urls_of_collectors(text: str) -> None:
    assert OTLP_ENDPOINT.parse(text) == text


@pytest.mark.parametrize(
    "text", ["127.0.0.1:4318", "grpc://h:1", "http://", "http://h:99999", "http://u:p@h:1", "http://h:1?x=y"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="give the URL of a collector"):
        OTLP_ENDPOINT.parse(text)
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        OtlpTarget.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": text})


def test_headers_are_named_and_percent_encoded() -> None:
    assert parse_headers(" X-Key = a%20b , ,other=1=2") == {"x-key": "a b", "other": "1=2"}


@pytest.mark.parametrize("text", ["secret", "=secret", "a b=secret", "a=secret%0d%0aX: y", "é=secret"])
def test_a_wrong_header_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(ConfigError, match="header 1 is not name=value") as raised:
        parse_headers(text)
    assert "secret" not in str(raised.value)


def test_the_environments_common_variables_count_where_the_program_has_none_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://common:1")
    found = given_from(None, (), BROKER_TABLE)[OTLP_ENDPOINT.name]
    assert (found.text, str(found.origin)) == ("http://common:1", "OTEL_EXPORTER_OTLP_ENDPOINT: ")
    monkeypatch.setenv("OTTLA_BROKER_OTTLA_TELEMETRY_OTLP_ENDPOINT", "http://own:1")
    assert given_from(None, (), BROKER_TABLE)[OTLP_ENDPOINT.name].text == "http://own:1"
    assert OTLP_ENDPOINT.name not in given_from(None, (), Table("other", {}, variables="OTHER_"))


def test_the_collector_of_the_environment() -> None:
    assert OtlpTarget.from_environment({}) is None
    found = OtlpTarget.from_environment(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:1/", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    )
    assert found == OtlpTarget("http://h:1", {"a": "b"})
