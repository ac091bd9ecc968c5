"""The Kafka clients of a task: what the worker's and the connector's properties make of them.

As in Connect: `consumer.`, `producer.` and `admin.` properties of the worker, then `consumer.override.` and
so on of the connector. The worker's own security settings hold where those say nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.client.audit.producer import AuditedProducer
from ottla.client.java_names import without_listeners_tls
from ottla.config.errors import ConfigError
from ottla.connect.host.logs import log_name
from ottla.connect.host.messages import Start

T = TypeVar("T")

Kind = Literal["consumer", "producer", "admin"]
BOOTSTRAP: Final = "bootstrap.servers"
GROUP: Final = "group.id"
AUDIT_TIER: Final = "ottla.audit.tier"
MAX_RECORDS: Final = "max.poll.records"
DEFAULT_MAX_RECORDS: Final = 500
DEFAULT_WORKER_GROUP: Final = "connect-cluster"
STRATEGY: Final = "partition.assignment.strategy"
_COOPERATIVE: Final = "cooperative-sticky"
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.", "https.", "enable.ssl.")

_log = logging.getLogger("ottla.connect.client")


def access(worker: Mapping[str, str], config: Mapping[str, str], kind: Kind) -> ClusterAccess:
    """The cluster of a kind of clients, with the properties that were given for them."""
    given = {name: value for name, value in worker.items() if name.startswith(_SECURITY)}
    given[BOOTSTRAP] = worker.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)
    given |= _under(worker, f"{kind}.") | _under(config, f"{kind}.override.")
    bootstrap = given.pop(BOOTSTRAP)
    return ClusterAccess(bootstrap, without_listeners_tls(given))


def _under(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix) and not name.startswith(f"{prefix}override.")
    }


def consumer_group(name: str, worker: Mapping[str, str], config: Mapping[str, str]) -> str:
    """The group of a sink connector."""
    return access(worker, config, "consumer").properties.get(GROUP) or f"connect-{name}"


def is_elsewhere(start: Start) -> bool:
    """Whether the connector's records go to another cluster than the worker's own topics."""
    ours = start.worker.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)
    return access(start.worker, start.config, "producer").bootstrap != ours


def overrides_producer(config: Mapping[str, str]) -> bool:
    """Whether a connector's producer is not the worker's."""
    return bool(_under(config, "producer.override."))


def producer(
    start: Start,
    on_error: Callable[[KafkaError, Any], None],
    *,
    transactional_id: str | None = None,
    client_id: str | None = None,
    of_worker: bool = False,
    audited: bool = False,
) -> Producer:
    """A producer whose `on_error` is called for each record that is not delivered, and for no other.

    of_worker: with the worker's properties alone. audited: it reports to the audit if the worker names a
    tier. Raises ConfigError.
    """
    own = f"connector-producer-{start.run.connector}-{start.run.task}"
    defaults: dict[str, str] = {
        "client.id": client_id or own,
        "acks": "all",
        "enable.idempotence": "true",
        "partitioner": "murmur2_random",  # where Java's clients put keys
        "queue.buffering.max.kbytes": "32768",
        "queue.buffering.max.messages": "200000",
    }
    forced: dict[str, Any] = {
        "delivery.report.only.error": True,
        "on_delivery": on_error,
        "error_cb": _errors_of(start),
        "log_level": 2,
    }
    if transactional_id is None:
        # as Connect's: a broker that is away is waited for
        defaults["delivery.timeout.ms"] = str(2**31 - 1)
    else:
        forced |= {"transactional.id": transactional_id, "enable.idempotence": "true"}
    where = access(start.worker, {} if of_worker else start.config, "producer")
    properties, tier = _properties(where, defaults, forced), start.worker.get(AUDIT_TIER)
    if audited and tier:
        return _made(lambda: AuditedProducer(properties, tier=tier))
    return _made(lambda: Producer(properties))


def consumer(start: Start) -> tuple[Consumer, bool, int]:
    """A sink's consumer; whether its partitions come and go one by one; how many records it takes at once.

    Raises ConfigError.
    """
    where = access(start.worker, start.config, "consumer")
    given = dict(where.properties)
    most = given.pop(MAX_RECORDS, str(DEFAULT_MAX_RECORDS))
    if not (most.strip().isdecimal() and 0 < int(most) <= 1_000_000):
        raise ConfigError(f"consumer.override.{MAX_RECORDS}={most}: it is no number of records")
    where = ClusterAccess(where.bootstrap, given)
    defaults = {
        "client.id": f"connector-consumer-{start.run.connector}-{start.run.task}",
        GROUP: f"connect-{start.run.connector}",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "true",
        # of a member that was killed, not librdkafka's 45 s: its partitions are read by another one soon
        "session.timeout.ms": "10000",
        "topic.metadata.refresh.interval.ms": "10000",  # a topic that is made later is found soon
        "queued.max.messages.kbytes": "16384",
        "fetch.queue.backoff.ms": "5",
    }
    if given.get("group.protocol", "classic").lower() == "classic":
        defaults[STRATEGY] = _COOPERATIVE
    forced: dict[str, Any] = {"enable.auto.commit": False, "error_cb": _errors_of(start), "log_level": 2}
    properties = _properties(where, defaults, forced)
    if STRATEGY in properties:
        properties[STRATEGY] = _one_protocol(properties[STRATEGY])
    return (
        _made(lambda: Consumer(properties)),
        properties.get(STRATEGY, _COOPERATIVE) == _COOPERATIVE,
        int(most),
    )


def _one_protocol(strategies: str) -> str:
    """Without the cooperative strategy where eager ones are there: librdkafka takes no mixture, Java's group
    with both is eager.
    """
    names = [each.strip() for each in strategies.split(",") if each.strip()]
    eager = [each for each in names if each != _COOPERATIVE]
    return ",".join(eager or names)


def transactional_id(start: Start) -> str:
    """The transactional id of a task of an exactly-once source, as in Connect."""
    group = start.worker.get(GROUP, DEFAULT_WORKER_GROUP)
    return f"{group}-{start.run.connector}-{start.run.task}"


def group_access(worker: Mapping[str, str], config: Mapping[str, str]) -> ClusterAccess:
    """How a sink's group is administered: as its consumer, or as the administrator where one is given."""
    as_consumer, as_admin = access(worker, config, "consumer"), access(worker, config, "admin")
    given = _under(worker, "admin.") or _under(config, "admin.override.")
    return secured(as_admin if given else as_consumer)


def secured(found: ClusterAccess) -> ClusterAccess:
    """The same cluster with nothing but its security settings."""
    kept = {name: value for name, value in found.properties.items() if name.startswith(_SECURITY)}
    return ClusterAccess(found.bootstrap, kept)


def admin_access(start: Start) -> ClusterAccess:
    """How topics of this connector's records are made: the cluster of its producer, as the administrator."""
    as_producer = access(start.worker, start.config, "producer")
    as_admin = access(start.worker, start.config, "admin")
    is_elsewhere_too = as_admin.bootstrap != start.worker.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)
    bootstrap = as_admin.bootstrap if is_elsewhere_too else as_producer.bootstrap
    return ClusterAccess(bootstrap, secured(as_admin).properties)


def _properties(
    where: ClusterAccess, defaults: Mapping[str, Any], forced: Mapping[str, Any]
) -> dict[str, Any]:
    given = ClusterAccess(where.bootstrap, {**defaults, **where.properties})
    return {**given.librdkafka(), **forced}


def _made(make: Callable[[], T]) -> T:
    try:
        return make()
    except (KafkaException, TypeError, ValueError) as problem:
        text = problem.args[0].str() if isinstance(problem, KafkaException) else str(problem)
        raise ConfigError(f"a property of the connector's Kafka client can't be: {text}") from None


def _errors_of(start: Start) -> Callable[[KafkaError], None]:
    name = {"run_name": log_name(start.run)}

    def tell(error: KafkaError) -> None:
        _log.warning("the Kafka client: %s", error.str(), extra=name)

    return tell
