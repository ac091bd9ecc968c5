"""What librdkafka's properties say of security, where several spellings say the same."""

from __future__ import annotations

from collections.abc import Mapping

_MECHANISM_NAMES = ("sasl.mechanism", "sasl.mechanisms")


def security_protocol_of(properties: Mapping[str, str]) -> str:
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    return properties.get("security.protocol", "PLAINTEXT").upper()


def mechanism_of(properties: Mapping[str, str]) -> str | None:
    """The SASL mechanism; of two spellings the one that librdkafka is told last has the last word."""
    given = [value for name, value in properties.items() if name in _MECHANISM_NAMES]
    return given[-1] if given else None


def checks_host_names(properties: Mapping[str, str]) -> bool:
    """Whether a broker's certificate must be of the host that was asked for."""
    return properties.get("ssl.endpoint.identification.algorithm", "https").lower() not in ("", "none")


def verifies_certificates(properties: Mapping[str, str]) -> bool:
    """Whether a broker's certificate must be of an authority that is trusted."""
    return properties.get("enable.ssl.certificate.verification", "true").lower() not in ("false", "f", "0")
