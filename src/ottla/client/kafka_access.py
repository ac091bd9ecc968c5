"""How a service reaches its cluster: one set of properties, said in the words of each Kafka client."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Bootstrap servers and librdkafka's properties for security (`security.protocol`, `sasl.username`…)."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def confluent(self, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The settings of a confluent-kafka client; `properties` win over the common ones."""
        return {"bootstrap.servers": self.bootstrap, **self.properties, **(properties or {})}

    def aiokafka(self) -> dict[str, Any]:
        """The keyword arguments of aiokafka's clients that say where the cluster is and who asks."""
        given = self.properties
        security = given.get("security.protocol", "PLAINTEXT").upper()
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": security,
        }
        if security.startswith("SASL_"):
            arguments["sasl_mechanism"] = given.get("sasl.mechanism", given.get("sasl.mechanisms", "PLAIN"))
            arguments["sasl_plain_username"] = given.get("sasl.username")
            arguments["sasl_plain_password"] = given.get("sasl.password")
        if security.endswith("SSL"):
            arguments["ssl_context"] = self._ssl_context()
        return arguments

    def _ssl_context(self) -> ssl.SSLContext:
        given = self.properties
        context = ssl.create_default_context(cafile=given.get("ssl.ca.location"))
        if "ssl.certificate.location" in given:
            context.load_cert_chain(
                given["ssl.certificate.location"],
                given.get("ssl.key.location"),
                given.get("ssl.key.password"),
            )
        if given.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
            context.check_hostname = False
        return context
