"""Files written for Confluent's services start ours, or are refused where they ask for protection."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.config.sources import from_file, from_words
from ottla.registry import settings as registry
from ottla.rest import settings as rest
from ottla.web.http_settings import addresses_of

#: The lines of config/schema-registry.properties and config/kafka-rest.properties, as Confluent ships them.
SHIPPED = {
    "registry": """\
listeners=http://0.0.0.0:8081
kafkastore.bootstrap.servers=PLAINTEXT://localhost:9092
kafkastore.topic=_schemas
debug=false
metadata.encoder.secret=REPLACE_ME_WITH_HIGH_ENTROPY_STRING
resource.extension.class=io.confluent.dekregistry.DekRegistryResourceExtension
""",
    "rest": """\
#id=kafka-rest-test-server
#schema.registry.url=http://localhost:8081
bootstrap.servers=PLAINTEXT://localhost:9092
#consumer.interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor
#producer.interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor
kafka.rest.extension.classes=io.confluent.kafkarest.KafkaRestResourceExtension
""",
}
TABLES: Mapping[str, Table] = {"registry": registry.TABLE, "rest": rest.TABLE}

#: Every setting of Confluent's common server, and of each service, as their sources name them (8.5).
OF_THE_SERVER = """
access.control.allow.headers access.control.allow.methods access.control.allow.origin
access.control.expose.headers access.control.skip.options authentication.method authentication.realm
authentication.roles authentication.skip.paths compression.enable connector.connection.limit
csrf.prevention.enable csrf.prevention.token.endpoint csrf.prevention.token.expiration.minutes
csrf.prevention.token.max.entries debug disable.response.size.metrics.collection dos.filter.delay.ms
dos.filter.enabled dos.filter.insert.headers dos.filter.ip.whitelist dos.filter.managed.attr
dos.filter.max.idle.tracker.ms dos.filter.max.requests.ms dos.filter.max.requests.per.connection.per.sec
dos.filter.max.requests.per.sec dos.filter.max.wait.ms dos.filter.tenant.dry.run.enabled
dos.filter.tenant.enabled dos.filter.tenant.max.requests.per.sec dos.filter.throttle.ms
dos.filter.throttled.requests expected.sni.headers hsts.header.enable http2.enabled idle.timeout.ms
jetty.legacy.uri.compliance listener.name.a.ssl.keystore.location listener.protocol.map listeners
max.request.header.size max.response.header.size metric.reporters metric.reporters.x
metrics.global.stats.request.tags.enable metrics.jmx.prefix metrics.latency.sla.ms metrics.latency.slo.ms
metrics.latency.slo.sla.enable metrics.num.samples metrics.sample.window.ms metrics.tag.map
network.forwarded.request.customizer.enable network.traffic.rate.limit.backend
network.traffic.rate.limit.bytes.per.sec network.traffic.rate.limit.enable nosniff.prevention.enable
percentile.max.latency.ms port prefix.sni.check.enabled prefix.sni.prefix proxy.protocol.accepted.ip.range
proxy.protocol.enabled reject.invalid.sni.headers reject.options.request request.logger.name
request.queue.capacity request.queue.capacity.growby request.queue.capacity.init
request.timeout.interrupt.enable request.timeout.ms resource.extension.classes response.http.headers.config
response.mediatype.default response.mediatype.preferred rest.servlet.initializor.classes
return.429.instead.of.500.for.jetty.response.errors server.connection.limit shutdown.graceful.ms
sni.check.enabled sni.host.check.enabled ssl.cipher.suites ssl.client.auth ssl.client.authentication
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.key.password ssl.keymanager.algorithm
ssl.keystore.location ssl.keystore.password ssl.keystore.reload ssl.keystore.type
ssl.keystore.watch.location ssl.protocol ssl.provider ssl.spire.enabled ssl.spire.trust.only.enabled
ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.password ssl.truststore.type
suppress.stack.trace.response thread.pool.max thread.pool.min websocket.path.prefix
websocket.servlet.initializor.classes
"""
DOCUMENTED = {
    "registry": OF_THE_SERVER
    + """
associations.enable avro.compatibility.level context.search.default.limit context.search.max.limit enable.fips
dek.registry.max.keys dek.registry.topic dek.registry.update.handlers dek.subject.search.default.limit
dek.subject.search.max.limit dek.version.search.default.limit dek.version.search.max.limit
kek.search.default.limit kek.search.max.limit
enable.fips.mode enable.store.health.check host.name host.port init.resource.extension.class
inter.instance.headers.whitelist inter.instance.listener.name inter.instance.protocol
kafkagroup.heartbeat.interval.ms kafkagroup.rebalance.timeout.ms kafkagroup.session.timeout.ms
kafkastore.bootstrap.servers kafkastore.checkpoint.dir kafkastore.checkpoint.version kafkastore.connection.url
kafkastore.group.id kafkastore.init.timeout.ms kafkastore.init.wait.for.reader
kafkastore.sasl.kerberos.kinit.cmd kafkastore.sasl.mechanism kafkastore.security.protocol
kafkastore.ssl.truststore.location kafkastore.timeout.ms kafkastore.topic kafkastore.topic.replication.factor
kafkastore.topic.skip.validation kafkastore.update.handlers kafkastore.write.max.retries
leader.connect.timeout.ms leader.election.delay leader.election.sticky leader.eligibility
leader.read.timeout.ms master.eligibility metadata.encoder.old.secret metadata.encoder.secret
metadata.encoder.secret.strict.validation metadata.encoder.topic mode.mutability resource.extension.class
resource.static.locations schema.cache.expiry.secs schema.cache.size schema.canonicalize.on.consume
schema.compatibility.level schema.providers schema.providers.reference.versions.strict
schema.providers.json.fetch.remote.schemas schema.registry.group.id schema.registry.inter.instance.protocol
schema.registry.resource.extension.class schema.reject.empty.subject schema.search.default.limit
schema.search.max.limit schema.validate.fields schema.validate.new.schemas size.limit.filter.enabled
size.limit.filter.max.request.body.size subject.search.default.limit subject.search.max.limit
subject.version.search.default.limit subject.version.search.max.limit
confluent.schema.registry.authorizer.class confluent.schema.registry.auth.mechanism
confluent.schema.registry.auth.ssl.principal.mapping.rules confluent.schema.registry.acl.topic
confluent.metadata.bootstrap.server.urls public.key.path confluent.license
""",
    "rest": OF_THE_SERVER
    + """
advertised.listeners api.endpoints.allowlist api.endpoints.blocklist api.v2.enable api.v3.enable
api.v3.produce.batch.maximum.entries api.v3.produce.rate.limit.cache.expiry.ms
api.v3.produce.rate.limit.enabled api.v3.produce.rate.limit.max.bytes.global.per.sec
api.v3.produce.rate.limit.max.bytes.per.sec api.v3.produce.rate.limit.max.requests.global.per.sec
api.v3.produce.rate.limit.max.requests.per.sec api.v3.produce.request.size.limit.max.bytes
api.v3.produce.response.thread.pool.size bootstrap.servers client.init.timeout.ms client.timeout.ms
client.sasl.mechanism client.security.protocol client.ssl.truststore.location
confluent.resource.name.authority confluent.telemetry.x consumer.instance.timeout.ms
consumer.iterator.backoff.ms consumer.iterator.timeout.ms consumer.request.max.bytes
consumer.request.timeout.ms consumer.threads fetch.min.bytes host.name id kafka.rest.extension.classes
kafka.rest.resource.extension.class max.poll.records null.request.body.always.publishes.empty.record
producer.threads rate.limit.backend rate.limit.costs rate.limit.default.cost rate.limit.enable
rate.limit.per.cluster.cache.expiry.ms rate.limit.per.cluster.permits.per.sec rate.limit.permits.per.sec
rate.limit.timeout.ms schema.registry.url simpleconsumer.pool.size.max simpleconsumer.pool.timeout.ms
streaming.connection.max.duration.grace.period.ms streaming.connection.max.duration.ms
use.custom.request.logging confluent.rest.auth.propagate.method confluent.metadata.bootstrap.server.urls
schema.registry.basic.auth.user.info schema.registry.ssl.truststore.location
""",
}


@pytest.mark.parametrize("service", TABLES)
def test_the_file_that_confluent_ships_is_taken_and_told(
    service: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "shipped.properties").write_text(SHIPPED[service])
    settings = Settings(TABLES[service], from_file(tmp_path / "shipped.properties"))
    settings.warn_of_unknown(logging.getLogger("test"))
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "unknown" not in told
    for name in ("metadata.encoder.secret", "kafka.rest.extension.classes"):
        assert (name in told) == settings.is_given(name), told
    # as these ask for nothing, and for the keys of encrypted fields, which are there
    assert "debug" not in told and "resource.extension.class" not in told


@pytest.mark.parametrize("service", TABLES)
def test_every_setting_that_confluent_documents_is_known(service: str) -> None:
    table = TABLES[service]
    unknown = [
        name
        for name in DOCUMENTED[service].split()
        if table.find(name) is None
        and table.find_unsupported(name) is None
        and not name.startswith(table.prefixes)
    ]
    assert not unknown


OPEN_OTHERWISE = [
    "authentication.method=DIGEST",
    "authentication.no.such.thing=x",
    "oauthbearer.no.such.thing=x",
    "ssl.spire.enabled=true",
    "ssl.no.such.thing=x",
    "listener.name.https.authentication.method=BASIC",
    "http.methods.blocklist=DELETE",
    "resource.extension.classes=com.example.Filter",
    "rest.servlet.initializor.classes=com.example.Jaas",
    "dos.filter.enabled=true",
    "csrf.prevention.enable=true",
    "confluent.metadata.bootstrap.server.urls=http://mds:8090",
    "public.key.path=/etc/key.pem",
    "sni.check.enabled=true",
    "nosniff.prevention.enable=true",
]


@pytest.mark.parametrize(
    ("service", "word"),
    [
        *((service, word) for service in TABLES for word in OPEN_OTHERWISE),
        ("registry", "resource.extension.class=io.confluent.kafka.schemaregistry.security.Extension"),
        ("registry", "schema.registry.resource.extension.class=com.example.Filter"),
        ("registry", "schema.registry.inter.instance.protocol=https"),
        ("registry", "confluent.schema.registry.authorizer.class=com.example.Authorizer"),
        ("registry", "confluent.schema.registry.auth.mechanism=SSL"),
        ("registry", "metadata.encoder.secret=f3c2"),
        ("registry", "enable.fips=true"),
        ("registry", "kafkastore.ssl.engine.factory.class=com.example.Engine"),
        ("registry", "kafkastore.sasl.login.callback.handler.class=com.example.Login"),
        ("rest", "kafka.rest.resource.extension.class=io.confluent.kafkarest.security.Extension"),
        ("rest", "confluent.rest.auth.ssl.principal.mapping.rules=DEFAULT"),
        ("rest", "api.endpoints.blocklist=api.v3.acls.*"),
        ("rest", "api.endpoints.allowlist=api.v2.*"),
        ("rest", "api.v3.enable=false"),
        ("rest", "rate.limit.enable=true"),
        ("rest", "schema.registry.ssl.truststore.password=secret"),
        ("rest", "client.security.providers=com.example.Provider"),
        ("rest", "producer.config.providers=file"),
    ],
)
def test_protection_that_is_not_there_stops_the_start(service: str, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings(TABLES[service], from_words([word]))
    name, _, value = word.partition("=")
    shown = (
        value if "password" not in name and "secret" not in name and "user.info" not in name else "[hidden]"
    )
    assert str(refused.value).startswith(f"--set {name}={shown}: "), refused.value


@pytest.mark.parametrize("service", TABLES)
@pytest.mark.parametrize(
    "words",
    [
        [
            "authentication.method=NONE",
            "authentication.roles=*",
            "ssl.client.auth=false",
            "ssl.keystore.location=",
        ],
        ["ssl.client.authentication=NONE", "dos.filter.enabled=false", "resource.extension.classes="],
    ],
)
def test_protection_that_is_not_asked_for_is_no_reason_to_stop(
    service: str, words: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    Settings(TABLES[service], from_words(words)).warn_of_unknown(logging.getLogger("test"))
    assert not caplog.records


def test_properties_that_java_s_clients_alone_have_are_told_and_not_passed_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = ["producer.interceptor.classes=com.example.Interceptor", "producer.linger.ms=7"]
    settings = Settings(rest.TABLE, from_words(words))
    assert settings.with_prefix(rest.PRODUCER_PREFIX) == {"linger.ms": "7"}
    settings.warn_of_unknown(logging.getLogger("test"))
    assert [record.getMessage() for record in caplog.records] == [
        "settings without effect: producer.interceptor.classes (Java's clients alone have them)"
    ]


# -- listeners ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "urls"),
    [
        (
            ["listeners=http://0.0.0.0:8081,http://127.0.0.1:18081"],
            ["http://127.0.0.1:8081", "http://127.0.0.1:18081"],
        ),
        (
            ["listeners=INSIDE://a:1,b:2", "listener.protocol.map=INSIDE:http,OUTSIDE:https"],
            ["http://a:1", "http://b:2"],
        ),
        (["listeners=https://a:1,X://b:2", "listener.protocol.map=X:https"], ["https://a:1", "https://b:2"]),
        (["port=8085"], ["http://127.0.0.1:8085"]),
        (["port=8085", "listeners=a:1"], ["http://a:1"]),
        ([], ["http://127.0.0.1:8081"]),
    ],
)
def test_listeners(words: Sequence[str], urls: Sequence[str]) -> None:
    settings = Settings(registry.TABLE, from_words(words))
    assert [each.url for each in addresses_of(settings, registry.LISTENERS)] == urls


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["listeners=X://a:1"], "listeners=X://a:1: listener X has no protocol in listener.protocol.map"),
        (["listeners=http://a:1,a:1"], "each listener must have a different address"),
        (["listeners=a"], "'a' is not HOST:PORT"),
        (["listeners=a:1", "listener.protocol.map=X"], "'X' is not NAME:http or NAME:https"),
    ],
)
def test_listeners_that_can_t_be(words: Sequence[str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        addresses_of(Settings(registry.TABLE, from_words(words)), registry.LISTENERS)
    assert problem in str(refused.value)
