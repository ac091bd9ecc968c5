"""Settings of telemetry, `ottla.telemetry.*`: the collector that traces and clients' metrics are sent to."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ottla.config.errors import ConfigError
from ottla.config.setting import LOW, Config, Setting, double, password, text_or_none
from ottla.config.validators import Rule, between


def _endpoint_problem(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        # urlsplit reads the port when it is asked for.
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or parts.username is not None:
        return "give the URL of a collector, as http://127.0.0.1:4318"
    return None


OTLP_ENDPOINT: Final = text_or_none(
    "ottla.telemetry.otlp.endpoint",
    None,
    "An OpenTelemetry collector, as http://127.0.0.1:4318: a broker sends it the metrics that clients push "
    "(KIP-714), services and pipelines their traces, by OTLP over HTTP. /v1/metrics or /v1/traces is added. "
    "OTEL_EXPORTER_OTLP_ENDPOINT in the environment means the same. None: no telemetry is sent.",
    Rule("a URL of http or https", _endpoint_problem),
)
OTLP_HEADERS: Final = password.optional(
    "ottla.telemetry.otlp.headers",
    "Headers for the collector, as `name=value,name=value`; values may be percent-encoded. "
    "OTEL_EXPORTER_OTLP_HEADERS in the environment means the same.",
)
OTLP_CERTIFICATE: Final = text_or_none(
    "ottla.telemetry.otlp.certificate",
    None,
    "A PEM file with the authorities that the collector's certificate may come from; by default those of the "
    "system. OTEL_EXPORTER_OTLP_CERTIFICATE in the environment means the same.",
)
TRACES_RATIO: Final = double(
    "ottla.telemetry.traces.ratio",
    1.0,
    "The part of the traces that is recorded, of those that begin here; a traceparent says it for others.",
    between(0.0, 1.0),
    importance=LOW,
)

OTLP_SETTINGS: Final[tuple[Setting[Any], ...]] = (OTLP_ENDPOINT, OTLP_HEADERS, OTLP_CERTIFICATE)
"""The settings of every program that sends telemetry."""
TRACING_SETTINGS: Final[tuple[Setting[Any], ...]] = (*OTLP_SETTINGS, TRACES_RATIO)
"""Those of programs that send traces."""

STANDARD_VARIABLES: Final[Mapping[str, str]] = {
    "OTEL_EXPORTER_OTLP_ENDPOINT": OTLP_ENDPOINT.name,
    "OTEL_EXPORTER_OTLP_HEADERS": OTLP_HEADERS.name,
    "OTEL_EXPORTER_OTLP_CERTIFICATE": OTLP_CERTIFICATE.name,
}
"""OpenTelemetry's own environment variables, and the settings that they stand for."""


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """A collector. certificate: a file of authorities, None for the system's."""

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> OtlpTarget | None:
        """The collector that OpenTelemetry's own variables name; None without one. Raises ConfigError."""
        endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        if not endpoint:
            return None
        problem = _endpoint_problem(endpoint)
        if problem is not None:
            raise ConfigError(f"OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}: {problem}")
        return cls(
            endpoint.rstrip("/"),
            parse_headers(environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
            environ.get("OTEL_EXPORTER_OTLP_CERTIFICATE") or None,
        )

    @classmethod
    def of(cls, config: Config) -> OtlpTarget | None:
        """The collector of these settings; None without one. Raises ConfigError."""
        endpoint, headers = config[OTLP_ENDPOINT], config[OTLP_HEADERS]
        if endpoint is None:
            return None
        return cls(
            endpoint.rstrip("/"),
            {} if headers is None else parse_headers(headers.value),
            config[OTLP_CERTIFICATE],
        )


def parse_headers(text: str) -> dict[str, str]:
    """Headers by name, in lower case. Raises ConfigError, which does not show the values."""
    headers: dict[str, str] = {}
    for number, pair in enumerate(filter(None, (each.strip() for each in text.split(","))), start=1):
        name, separator, value = pair.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        is_token = name.isascii() and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name)
        if not (separator and name and is_token and value.isascii() and value.isprintable()):
            raise ConfigError(f"{OTLP_HEADERS.name}: header {number} is not name=value")
        headers[name] = value
    return headers


def require_package(module: str, needed_for: str) -> None:
    """Raises ConfigError, with one line that says what to install, where a module of the extra is missing."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigError(f"{needed_for}: the package {module} is missing: pip install 'ottla[telemetry]'")
