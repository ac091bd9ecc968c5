"""Settings of HTTP that Confluent's services share: their listeners, and those that have no effect here.

Confluent's services stand on one server, so its settings are in the files of each of them. Those that ask for
protection which is not there (plugins, blocklists, limits on clients) stop the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.setting import HIGH, LOW, Setting, integer, string_list
from ottla.config.settings import Settings
from ottla.config.unsupported import Unsupported, harmless, merged, refusing
from ottla.config.validators import ListOf, between
from ottla.web.errors import ServiceError
from ottla.web.server import HttpAddress

_SCHEMES: Final = ("http", "https")
_NOT_OF_TLS: Final = "this part of TLS is not there: leave it out"
_NO_LISTENER_SETTING: Final = "of the settings of one listener only those of ssl.* are known: leave it out"
_NO_PROVIDER: Final = (
    "clients are authenticated by authentication.method, a file of users, oauthbearer.* or certificates: "
    "leave this out"
)
_NO_PLUGINS: Final = "classes of plugins can't be loaded, so whatever it protects would be open: leave it out"
_NO_LIMITS: Final = "there are no limits on the rate of requests: let a proxy set them, and leave this out"
_NO_HEADERS: Final = "headers can't be added to answers: let a proxy add them, and leave this out"


def listeners_setting(default: str) -> Setting[tuple[str, ...]]:
    """The setting `listeners` of a service that listens on `default` if it is not given."""
    return string_list(
        "listeners",
        (default,),
        "Where clients connect: host:port, http://…, https://… or NAME://host:port, with commas between. "
        "Other instances are told the first.",
        ListOf(empty=False),
        importance=HIGH,
    )


LISTENER_PROTOCOL_MAP: Final[Setting[tuple[str, ...]]] = string_list(
    "listener.protocol.map",
    (),
    "The protocols of named listeners, as NAME:http or NAME:https with commas between.",
    ListOf(),
    importance=LOW,
)
PORT: Final[Setting[int | None]] = integer.optional(
    "port",
    "The port on which HTTP clients connect, at every address, where listeners is not given.",
    between(0, 65_535),
    importance=LOW,
)


def addresses_of(settings: Settings, listeners: Setting[tuple[str, ...]]) -> tuple[HttpAddress, ...]:
    """The addresses on which a service with these settings listens, at least one. Raises ConfigError."""
    port = settings[PORT]
    if port is not None and not settings.is_given(listeners.name):
        return (HttpAddress("0.0.0.0", port),)
    protocols = _protocols(settings)
    found: list[HttpAddress] = []
    for text in settings[listeners]:
        scheme, separator, rest = text.partition("://")
        protocol = protocols.get(scheme.lower()) if separator else "http"
        if protocol is None:
            problem = f"listener {scheme} has no protocol in {LISTENER_PROTOCOL_MAP.name}"
            raise settings.refusal(listeners.name, problem)
        try:
            parsed = HttpAddress.parse(rest if separator else text)
            found.append(HttpAddress(parsed.host, parsed.port, protocol, scheme.lower() if separator else ""))
        except ServiceError as problem:
            raise settings.refusal(listeners.name, str(problem)) from None
    places = [(each.host, each.port) for each in found if each.port]
    if len(set(places)) < len(places):
        raise settings.refusal(listeners.name, "each listener must have a different address")
    return tuple(found)


def _protocols(settings: Settings) -> Mapping[str, str]:
    """The protocol of each scheme: http, https, and those that are mapped. Raises ConfigError."""
    protocols = dict(zip(_SCHEMES, _SCHEMES, strict=True))
    for pair in settings[LISTENER_PROTOCOL_MAP]:
        name, _, protocol = pair.partition(":")
        if not name or protocol.lower() not in _SCHEMES:
            raise settings.refusal(LISTENER_PROTOCOL_MAP.name, f"{pair!r} is not NAME:http or NAME:https")
        if protocols.setdefault(name.lower(), protocol.lower()) != protocol.lower():
            raise settings.refusal(LISTENER_PROTOCOL_MAP.name, f"{name} is given two protocols")
    return protocols


UNSUPPORTED: Final[Mapping[str, Unsupported]] = merged(
    (
        refusing(_NOT_OF_TLS, "ssl.", "hsts.header.enable", nothing=("false",)),
        refusing(_NO_LISTENER_SETTING, "listener.name."),
        refusing(_NOT_OF_TLS, "sni.check.enabled", "prefix.sni.check.enabled", nothing=("false",)),
        refusing(_NOT_OF_TLS, "reject.invalid.sni.headers", "enable.fips", nothing=("false",)),
        harmless(
            "TLS is OpenSSL's, of HTTP/1.1",
            "ssl.protocol",
            "ssl.provider",
            "ssl.keymanager.algorithm",
            "ssl.trustmanager.algorithm",
            "ssl.keystore.watch.location",
            "ssl.endpoint.identification.algorithm",
            "sni.host.check.enabled",
            "prefix.sni.prefix",
            "expected.sni.headers",
            "enable.fips.mode",
            "http2.enabled",
            nothing=("false", "tls"),
        ),
        refusing(_NO_PROVIDER, "authentication.", "oauthbearer.", "oauth.", "public.key.path"),
        refusing(_NO_PROVIDER, "confluent.metadata.", "confluent.security.", "confluent.oidc."),
        refusing(_NO_PROVIDER, "csrf.prevention.enable", nothing=("false",)),
        harmless("requests need no token", "csrf."),
        refusing(
            _NO_PLUGINS,
            "rest.servlet.initializor.classes",
            # With which Confluent's services have authentication.method=BEARER, which is here without.
            told=(
                "io.confluent.common.security.jetty.initializer.authenticationhandler",
                "io.confluent.common.security.jetty.initializer.installbearerorbasicsecurityhandler",
                "io.confluent.common.security.jetty.initializer.installoauthsecurityhandler",
            ),
        ),
        refusing(
            _NO_PLUGINS,
            "resource.extension.classes",
            "websocket.servlet.initializor.classes",
            "kafka.rest.extension.classes",
            told=("io.confluent.kafkarest.kafkarestresourceextension",),
        ),
        refusing(
            "methods can't be blocked: let a proxy do that, and leave this out",
            "http.methods.blocklist",
            "http.methods.blacklist",
            "http.methods.allowlist",
            "http.methods.whitelist",
        ),
        refusing(
            _NO_LIMITS,
            "dos.filter.enabled",
            "dos.filter.tenant.enabled",
            "network.traffic.rate.limit.enable",
            "rate.limit.enable",
            nothing=("false",),
        ),
        harmless(
            "there are no limits on the rate of requests", "dos.filter.", "network.traffic.", "rate.limit."
        ),
        refusing("the PROXY protocol is not spoken", "proxy.protocol.enabled", nothing=("false",)),
        refusing("clients are not told apart by their addresses", "proxy.protocol.accepted.ip.range"),
        refusing(
            _NO_HEADERS, "nosniff.prevention.enable", "response.http.headers.config", nothing=("false",)
        ),
        harmless("OPTIONS requests are those of CORS alone", "reject.options.request", nothing=("false",)),
        harmless(
            "bounds of the server are its own",
            "server.connection.limit",
            "connector.connection.limit",
            "thread.pool.min",
            "thread.pool.max",
            "request.queue.capacity",
            "request.queue.capacity.init",
            "request.queue.capacity.growby",
            "max.request.header.size",
            "max.response.header.size",
            "idle.timeout.ms",
            "request.timeout.ms",
            "request.timeout.interrupt.enable",
            "shutdown.graceful.ms",
            nothing=("0",),
        ),
        harmless(
            "metrics and request logs are not written",
            "metric.reporters",
            "metric.reporters.",
            "metrics.",
            "percentile.max.latency.ms",
            "disable.response.size.metrics.collection",
            "request.logger.name",
            "use.custom.request.logging",
            "confluent.telemetry.",
            "confluent.monitoring.",
            "confluent.support.",
            nothing=("false",),
        ),
        harmless(
            "there is no license to check", "confluent.license", "confluent.license.", "confluent.topic."
        ),
        harmless(
            "of the Java server",
            "debug",
            "response.mediatype.",
            "websocket.path.prefix",
            "jetty.legacy.uri.compliance",
            "suppress.stack.trace.response",
            "network.forwarded.request.customizer.enable",
            "return.429.instead.of.500.for.jetty.response.errors",
            "resource.static.locations",
            nothing=("false",),
        ),
    )
)
"""Settings of Confluent's common server that have no effect here."""
