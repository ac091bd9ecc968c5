"""librdkafka's client options as those of the Java client, with which Spark reads Kafka.

One table: a pipeline is configured once, with librdkafka's names (which our own clients take), and Spark's
connector gets the counterparts as `kafka.*`. Files of certificates and keys are read here and handed over as
text, so executors on other machines need no files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ottla.client.errors import ClientOptionError
from ottla.client.security import TOKEN_AUTHENTICATION, credentials_of


def _same(name: str) -> Callable[[str], dict[str, str]]:
    return lambda value: {name: value}


def _nothing(value: str) -> dict[str, str]:
    return {}


def _security_protocol(value: str) -> dict[str, str]:
    return {"security.protocol": value.upper()}


def _endpoint_identification(value: str) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": "" if value.lower() == "none" else value.lower()}


def _truststore(pem: str) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _private_key(pem: str) -> dict[str, str]:
    if "BEGIN PRIVATE KEY" not in pem and "BEGIN ENCRYPTED PRIVATE KEY" not in pem:
        raise ClientOptionError(
            "the ssl key is not in PKCS#8, the only form Java takes: openssl pkcs8 -topk8 -in KEY -out NEWKEY"
        )
    return {"ssl.keystore.type": "PEM", "ssl.keystore.key": pem}


def _from_file(option: str, convert: Callable[[str], dict[str, str]]) -> Callable[[str], dict[str, str]]:
    def read(value: str) -> dict[str, str]:
        try:
            return convert(Path(value).read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError) as error:
            raise ClientOptionError(f"{option}: cannot read {value}: {error}") from error

    return read


def _verification(value: str) -> dict[str, str]:
    if value.lower() != "true":
        raise ClientOptionError(
            "enable.ssl.certificate.verification=false has no counterpart in Spark's Kafka client: "
            "give ssl.ca.location, and ssl.endpoint.identification.algorithm=none for other host names"
        )
    return {}


def _no_tokens(name: str) -> Callable[[str], dict[str, str]]:
    def refuse(value: str) -> dict[str, str]:
        raise ClientOptionError(
            f"{name}: Spark's Kafka client gets no bearer tokens: log in by SCRAM, PLAIN or a certificate"
        )

    return refuse


TOKEN_PROPERTIES: Final = (
    "https.ca.location",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
)
"""The properties of a client's login by bearer tokens (bearer_login.py)."""

JAVA_COUNTERPARTS: Mapping[str, Callable[[str], dict[str, str]]] = MappingProxyType(
    {
        "client.id": _same("client.id"),
        "client.rack": _same("client.rack"),
        "security.protocol": _security_protocol,
        "sasl.mechanism": _same("sasl.mechanism"),  # of two spellings the last one wins, as in librdkafka
        "sasl.mechanisms": _same("sasl.mechanism"),
        "sasl.username": _nothing,  # both go into sasl.jaas.config
        "sasl.password": _nothing,
        TOKEN_AUTHENTICATION: _nothing,
        **{name: _no_tokens(name) for name in TOKEN_PROPERTIES},
        "ssl.ca.location": _from_file("ssl.ca.location", _truststore),
        "ssl.ca.pem": _truststore,
        "ssl.certificate.location": _from_file(
            "ssl.certificate.location", _same("ssl.keystore.certificate.chain")
        ),
        "ssl.certificate.pem": _same("ssl.keystore.certificate.chain"),
        "ssl.key.location": _from_file("ssl.key.location", _private_key),
        "ssl.key.pem": _private_key,
        "ssl.key.password": _same("ssl.key.password"),
        "ssl.cipher.suites": _same("ssl.cipher.suites"),
        "ssl.endpoint.identification.algorithm": _endpoint_identification,
        "enable.ssl.certificate.verification": _verification,
        "socket.connection.setup.timeout.ms": _same("socket.connection.setup.timeout.ms"),
        "socket.send.buffer.bytes": _same("send.buffer.bytes"),
        "socket.receive.buffer.bytes": _same("receive.buffer.bytes"),
        "connections.max.idle.ms": _same("connections.max.idle.ms"),
        "reconnect.backoff.ms": _same("reconnect.backoff.ms"),
        "reconnect.backoff.max.ms": _same("reconnect.backoff.max.ms"),
        "retry.backoff.ms": _same("retry.backoff.ms"),
        "retry.backoff.max.ms": _same("retry.backoff.max.ms"),
        "metadata.max.age.ms": _same("metadata.max.age.ms"),
        "client.dns.lookup": _same("client.dns.lookup"),
        "fetch.wait.max.ms": _same("fetch.max.wait.ms"),
        "fetch.min.bytes": _same("fetch.min.bytes"),
        "fetch.max.bytes": _same("fetch.max.bytes"),
        "fetch.message.max.bytes": _same("max.partition.fetch.bytes"),
        "max.partition.fetch.bytes": _same("max.partition.fetch.bytes"),
        "check.crcs": _same("check.crcs"),
        # Of librdkafka itself: its log, its threads and queues.
        "log_level": _nothing,
        "debug": _nothing,
        "statistics.interval.ms": _nothing,
        "socket.keepalive.enable": _nothing,
        "socket.nagle.disable": _nothing,
        "socket.timeout.ms": _nothing,
        "broker.address.ttl": _nothing,
        "broker.address.family": _nothing,
        "enable.sparse.connections": _nothing,
        "topic.metadata.refresh.interval.ms": _nothing,
        "message.max.bytes": _nothing,
        "receive.message.max.bytes": _nothing,
    }
)

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_client_options(client_options: Mapping[str, str]) -> dict[str, str]:
    """The Java client's options for librdkafka's `client_options`, by Java's names (without `kafka.`).

    Raises ClientOptionError for one that has no counterpart: no setting is left out silently.
    """
    options: dict[str, str] = {}
    for name, value in client_options.items():
        convert = JAVA_COUNTERPARTS.get(name)
        if convert is None:
            raise ClientOptionError(
                f"client option {name} has no counterpart that Spark's Kafka client is known to take"
            )
        options |= convert(str(value))
    return options | _jaas(client_options)


def _jaas(client_options: Mapping[str, str]) -> dict[str, str]:
    credentials = credentials_of(client_options)
    if credentials is None:
        return {}
    module = _PLAIN_MODULE if credentials.mechanism == "PLAIN" else _SCRAM_MODULE
    name, password = _quoted(credentials.user), _quoted(credentials.password)
    token = ' tokenauth="true"' if credentials.by_token else ""
    return {"sasl.jaas.config": f"{module} required username={name} password={password}{token};"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
