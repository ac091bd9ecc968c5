"""The properties of Java's Kafka clients by librdkafka's names, for files that Java's services were given.

Most names are the same. Some have another name here; credentials stand in a JAAS text, certificates in PEM
files or texts. Those that Java's clients alone have are told where they are given (`JAVA_ALONE`), and those
that ask for protection which our clients can't give refuse (`WITHOUT_PROTECTION`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.client.errors import ClientOptionError
from ottla.client.security import JWT_BEARER, TOKEN_AUTHENTICATION
from ottla.config.unsupported import Unsupported, harmless, refusing

JAVA_ALONE: Final = frozenset(
    {
        "bootstrap.controllers",
        "bootstrap.resolve.timeout.ms",
        "buffer.memory.allocation.strategy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metadata.cluster.check.enable",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "transaction.two.phase.commit.enable",
        "value.deserializer",
        "value.serializer",
    }
)
"""Properties of Java's clients that librdkafka lacks, and that protect nothing."""

WITHOUT_PROTECTION: Final = frozenset(
    {
        "config.providers",
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "security.providers",
        "ssl.engine.factory.class",
        "ssl.provider",
    }
)
"""Properties of Java's clients about security that no other client has."""

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
_SERVED_BUFFER: Final = ("socket.receive.buffer.bytes", "socket.send.buffer.bytes")
_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_OF_LISTENERS: Final = frozenset(
    {"ssl.client.auth", "ssl.client.authentication", "ssl.keystore.reload", "ssl.principal.mapping.rules"}
)
_TLS_VERSIONS: Final = frozenset({"TLSv1.2", "TLSv1.3"})
_PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE: Final = "OAuthBearerLoginModule"
_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"
_TOKEN_CLASSES: Final[Mapping[str, Mapping[str, str | None]]] = {
    "sasl.login.callback.handler.class": {
        f"{_OAUTHBEARER}.OAuthBearerLoginCallbackHandler": None,
        f"{_OAUTHBEARER}.secured.OAuthBearerLoginCallbackHandler": None,
    },
    "sasl.oauthbearer.jwt.retriever.class": {
        f"{_OAUTHBEARER}.DefaultJwtRetriever": None,
        f"{_OAUTHBEARER}.ClientCredentialsJwtRetriever": None,
        f"{_OAUTHBEARER}.FileJwtRetriever": None,
        f"{_OAUTHBEARER}.JwtBearerJwtRetriever": JWT_BEARER,
    },
    "sasl.oauthbearer.jwt.validator.class": {
        f"{_OAUTHBEARER}.DefaultJwtValidator": None,
        f"{_OAUTHBEARER}.ClientJwtValidator": None,
    },
}
"""Kafka's own classes, and the grant that they stand for where it is not the usual one of the address."""
_TOKEN_OPTIONS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "ssl.truststore.location": "https.ca.location",
}
"""Options of a login by tokens, which count where the properties are not given."""
_EXTENSION: Final = "extension_"
_JAAS: Final = re.compile(
    r"\s*[\w.$]*?(?P<module>\w+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*)"
)
_JAAS_OPTION: Final = re.compile(
    r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)


def without_listeners_tls(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of clients among those of a service whose own TLS has the same names, as Connect's has.

    A cluster without TLS has none, whatever keys the service's listeners have.
    """
    with_tls = properties.get("security.protocol", "").upper() in ("SSL", "SASL_SSL")
    return {
        name: text
        for name, text in properties.items()
        if name not in _OF_LISTENERS and (with_tls or not name.startswith("ssl."))
    }


def unsupported_properties(prefixes: Iterable[str]) -> dict[str, Unsupported]:
    """The properties of Java's clients that ours don't take, under each of these prefixes of settings."""
    found: dict[str, Unsupported] = {}
    for prefix in prefixes:
        names = (prefix + name for name in sorted(JAVA_ALONE))
        found |= harmless("Java's clients alone have them", *names)
        names = (prefix + name for name in sorted(WITHOUT_PROTECTION))
        found |= refusing("the Kafka clients here lack it: leave it out", *names)
        for name, known in _TOKEN_CLASSES.items():
            nothing = tuple(each.lower() for each in known)
            found |= refusing("only Kafka's own classes are known here", prefix + name, nothing=nothing)
        found |= refusing("the Kafka clients here lack it: leave it out", f"{prefix}config.providers.")
    return found


def librdkafka_properties(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same properties by librdkafka's names; those that are already so stay as they are.

    Raises ClientOptionError for a value of Java's clients that librdkafka can't have.
    """
    if not any(name in given for name in _JAVA_NAMES):
        return dict(given)
    found = {_RENAMED.get(name, name): value for name, value in given.items() if name not in JAVA_ALONE}
    for name in _SERVED_BUFFER:
        if str(found.get(name)).strip() == "-1":
            found[name] = "0"  # the system's default, in the words of each
    if "buffer.memory" in found:
        kibibytes = _number("buffer.memory", found.pop("buffer.memory")) // 1024
        found["queue.buffering.max.kbytes"] = str(max(kibibytes, 1))
    if "partition.assignment.strategy" in found:
        found["partition.assignment.strategy"] = _strategies(str(found["partition.assignment.strategy"]))
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    _take_protocols(found)
    _take_stores(found)
    _take_classes(found)
    _take_login(found)
    return found


def _take_protocols(found: dict[str, Any]) -> None:
    protocol = str(found.pop("ssl.protocol", "TLS"))
    enabled = {each.strip() for each in str(found.pop("ssl.enabled.protocols", "")).split(",")} - {""}
    if protocol not in {"TLS", *_TLS_VERSIONS}:
        raise ClientOptionError(f"ssl.protocol={protocol}: it can't be chosen here, leave it out")
    if enabled and not enabled >= _TLS_VERSIONS:
        versions = ",".join(sorted(enabled))
        raise ClientOptionError(
            f"ssl.enabled.protocols={versions}: TLS versions can't be chosen here, leave it out"
        )


def _take_stores(found: dict[str, Any]) -> None:
    """Certificates and keys: PEM as librdkafka names it. Java's own stores can't be read."""
    if "ssl.truststore.location" in found or "ssl.truststore.certificates" in found:
        _require_pem(found, "ssl.truststore.type", "ssl.ca.location")
        _rename(found, "ssl.truststore.location", "ssl.ca.location")
        _rename(found, "ssl.truststore.certificates", "ssl.ca.pem")
    for name in ("ssl.truststore.type", "ssl.truststore.password"):
        found.pop(name, None)
    pem = str(found.get("ssl.keystore.type", "")).upper() == "PEM"
    if "ssl.keystore.type" in found and ("ssl.keystore.location" in found or "ssl.keystore.key" in found):
        _require_pem(found, "ssl.keystore.type", "ssl.certificate.location and ssl.key.location")
    found.pop("ssl.keystore.type", None)
    if pem and "ssl.keystore.location" in found:
        # one file with both
        found["ssl.certificate.location"] = found["ssl.key.location"] = found.pop("ssl.keystore.location")
        found.pop("ssl.keystore.password", None)
    _rename(found, "ssl.keystore.certificate.chain", "ssl.certificate.pem")
    _rename(found, "ssl.keystore.key", "ssl.key.pem")


def _require_pem(found: Mapping[str, Any], name: str, instead: str) -> None:
    kind = str(found.get(name, "JKS")).upper()
    if kind != "PEM":
        raise ClientOptionError(
            f"{name}={kind}: stores of Java can't be read here. Write the certificates as PEM files, "
            f"and give them with {name}=PEM, or as {instead}"
        )


def _take_classes(found: dict[str, Any]) -> None:
    for name, known in _TOKEN_CLASSES.items():
        given = found.pop(name, None)
        if given is None:
            continue
        if str(given) not in known:
            raise ClientOptionError(f"{name}={given}: only {', '.join(known)} are known here")
        if (grant := known[str(given)]) is not None:
            found["sasl.oauthbearer.grant.type"] = grant


def _take_login(found: dict[str, Any]) -> None:
    """The login of a JAAS text, as in `PlainLoginModule required username="a" password="b";`."""
    text = found.pop("sasl.jaas.config", None)
    if text is None:
        return
    login = _JAAS.match(str(text))
    if login is None:
        raise ClientOptionError("sasl.jaas.config: it is not MODULE required NAME=VALUE …;")
    if login["module"] not in (*_PASSWORD_MODULES, _TOKEN_MODULE):
        known = ", ".join((*_PASSWORD_MODULES, _TOKEN_MODULE))
        raise ClientOptionError(f"sasl.jaas.config: {login['module']} is not known here, only {known}")
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or plain)
        for name, double, single, plain in _JAAS_OPTION.findall(login["options"])
    }
    if login["module"] == _TOKEN_MODULE:
        _take_token_options(found, options)
        return
    if "username" not in options or "password" not in options:
        raise ClientOptionError("sasl.jaas.config: it has no username and password")
    found["sasl.username"], found["sasl.password"] = options["username"], options["password"]
    if login["module"] == "ScramLoginModule" and options.get("tokenauth", "").lower() == "true":
        found[TOKEN_AUTHENTICATION] = "true"


def _take_token_options(found: dict[str, Any], options: Mapping[str, str]) -> None:
    for option, name in _TOKEN_OPTIONS.items():
        if option in options:
            found.setdefault(name, options[option])
    extensions = [
        f"{name.removeprefix(_EXTENSION)}={value}"
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    ]
    if extensions:
        found.setdefault("sasl.oauthbearer.extensions", ",".join(extensions))


def _strategies(text: str) -> str:
    """librdkafka's names of the classes of Kafka that assign partitions."""
    names = [each.strip().removeprefix("class ").rpartition(".") for each in text.split(",")]
    return ",".join(_ASSIGNORS.get(name, package + dot + name) for package, dot, name in names)


def _number(name: str, value: Any) -> int:
    text = str(value).strip()
    if not text.isdecimal() or len(text) > 19:
        raise ClientOptionError(f"{name}={text}: it is not a number")
    return int(text)


def _rename(found: dict[str, Any], name: str, new: str) -> None:
    if name in found:
        found[new] = found.pop(name)


_JAVA_NAMES: Final = frozenset(
    {
        *JAVA_ALONE,
        *_RENAMED,
        *_TOKEN_CLASSES,
        "buffer.memory",
        "partition.assignment.strategy",
        "sasl.jaas.config",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""The names that are changed, or whose values are."""
