"""How a client reaches a cluster: one description, said in the words of every Kafka client.

The description is in librdkafka's names (`security.protocol`, `sasl.username`, `ssl.ca.location`, …). Our own
clients on librdkafka take it as it is; aiokafka's clients, Java's and Spark's get the counterparts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.java_options import java_client_options
from ottla.client.security import mechanism_of, security_protocol_of
from ottla.client.tls_context import tls_context

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_SPARK_PREFIX: Final = "kafka."


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where a cluster is, and as whom and how it is asked.

    properties: librdkafka's. client_id, request_timeout_ms: None leaves what `properties` say, or else the
    client library's default.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)
    client_id: str | None = None
    request_timeout_ms: int | None = None

    def with_client_id(self, client_id: str) -> ClusterAccess:
        """The same cluster, asked under this name."""
        return dataclasses.replace(self, client_id=client_id)

    def with_request_timeout_ms(self, request_timeout_ms: int) -> ClusterAccess:
        """The same cluster, for clients that wait so long for an answer."""
        return dataclasses.replace(self, request_timeout_ms=request_timeout_ms)

    def with_properties(self, properties: Mapping[str, str]) -> ClusterAccess:
        """The same cluster; these properties win over those of before."""
        return dataclasses.replace(self, properties={**self.properties, **properties})

    def librdkafka(self, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The settings of a confluent-kafka client; `properties` win over the common ones."""
        given: dict[str, Any] = {"bootstrap.servers": self.bootstrap, **self.properties}
        if self.client_id is not None:
            given["client.id"] = self.client_id
        if self.request_timeout_ms is not None:
            given["socket.timeout.ms"] = self.request_timeout_ms
        return {**given, **(properties or {})}

    def aiokafka(self) -> dict[str, Any]:
        """The keyword arguments of aiokafka's clients. Raises ClientOptionError for unusable TLS files."""
        given = self.properties
        protocol = security_protocol_of(given)
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": protocol,
        }
        client_id = given.get("client.id") if self.client_id is None else self.client_id
        if client_id is not None:
            arguments["client_id"] = client_id
        if self.request_timeout_ms is not None:
            arguments["request_timeout_ms"] = self.request_timeout_ms
        if protocol.startswith("SASL_"):
            arguments["sasl_mechanism"] = mechanism_of(given) or "PLAIN"
            arguments["sasl_plain_username"] = given.get("sasl.username")
            arguments["sasl_plain_password"] = given.get("sasl.password")
        if protocol.endswith("SSL"):
            arguments["ssl_context"] = tls_context(given)
        return arguments

    def java(self) -> dict[str, str]:
        """The properties of a Java client. Raises ClientOptionError for one that has no counterpart."""
        given = {"bootstrap.servers": self.bootstrap, **java_client_options(self.properties)}
        if self.client_id is not None:
            given["client.id"] = self.client_id
        if self.request_timeout_ms is not None:
            given["request.timeout.ms"] = str(self.request_timeout_ms)
        return given

    def spark(self) -> dict[str, str]:
        """The same as options of Spark's Kafka source and sink. Raises ClientOptionError as `java` does."""
        return {_SPARK_PREFIX + name: value for name, value in self.java().items()}
