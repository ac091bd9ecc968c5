"""The flows of an mm2.properties file: a worker on each target, with three connectors, as in MirrorMaker 2.

For each ordered pair of clusters there is at most one worker. It runs on the second one, the target, in the
group `SOURCE-mm2`, with topics `mm2-configs.SOURCE.internal` and so on: MirrorMaker 2's own names, so that
one program goes on where the other stopped. There is a worker for a pair whose flow is enabled, and for one
whose heartbeats are: those of B->A are written into A, from where A->B brings them to B.

What a connector is configured with, later ones winning: the file's keys that are settings of connectors, the
clusters' own keys behind `source.cluster.`, `source.consumer.` …, and the keys of the flow (`A->B.topics`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import Given, texts
from ottla.connect import settings as worker_settings
from ottla.connect.plugins import definitions
from ottla.connect.plugins.catalog import Catalog
from ottla.connect.plugins.definition_validation import WorkerView, plugin_definitions, validated
from ottla.connect.worker.config_providers import ConfigProviders, config_providers
from ottla.mirror import settings as flow_settings
from ottla.mirror.run.settings import CLUSTERS, is_own
from ottla.replicated.writer import require_known

CONNECTORS: Final = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
"""Names of connectors, and of their classes within Java's package."""
ENABLED: Final = "enabled"
HEARTBEATS: Final = "emit.heartbeats.enabled"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
BOOTSTRAP: Final = "bootstrap.servers"
_CLIENT_NAMES: Final = (BOOTSTRAP, "security.protocol", "client.dns.lookup")
_CLIENT_PREFIXES: Final = ("ssl.", "sasl.", "security.")
_KINDS: Final = tuple(f"{each}." for each in flow_settings.ClientKind)
_COMMON_OF_WORKERS: Final = (
    "offset.storage.",
    "config.storage.",
    "status.storage.",
    "key.converter",
    "value.converter",
    "header.converter",
    "task.",
    "config.providers",
    "ottla.task.",
    "ottla.connector.log.",
    "offset.flush.",
)
_NOT_OF_WORKERS: Final = ("listeners", "rest.", "plugin.path", "plugin.discovery")

log = logging.getLogger("ottla.mirror")


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One worker. worker: its settings. connectors: their configurations by name."""

    source: str
    target: str
    enabled: bool
    worker: Settings
    connectors: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        """As it stands in front of keys: `A->B`."""
        return f"{self.source}->{self.target}"


class Mm2File:
    """The keys of one file, and what they say. Raises ConfigError."""

    def __init__(self, given: Mapping[str, Given], aliases: tuple[str, ...], catalog: Catalog) -> None:
        self._given = {name: each for name, each in given.items() if not is_own(name)}
        self.clusters = tuple(dict.fromkeys(each.strip() for each in aliases if each.strip()))
        if not self.clusters:
            raise ConfigError(f"{CLUSTERS.name}: name the clusters, as in {CLUSTERS.name}=A,B")
        self._catalog = catalog
        known = {
            each.name
            for connector in CONNECTORS
            for each in plugin_definitions(catalog, f"{flow_settings.PACKAGE}{connector}") or ()
        }
        self._of_connectors = frozenset(known)
        self._providers = self._made_providers()
        for alias in self.clusters:
            if BOOTSTRAP not in self._cluster(alias):
                raise ConfigError(f"{alias}.{BOOTSTRAP}: the servers of cluster {alias} are missing")

    def flows(self, targets: Iterable[str] | None = None) -> list[FlowPlan]:
        """The workers to run: all, or those on some targets. Raises ConfigError."""
        wanted = set(self.clusters if targets is None else targets)
        for alias in sorted(wanted - set(self.clusters)):
            raise ConfigError(f"--clusters {alias}: there is no such cluster in {CLUSTERS.name}")
        found = [
            self._flow(source, target)
            for source in self.clusters
            for target in self.clusters
            if target in wanted and source != target
            if self._is_enabled(source, target) or self._beats(source, target)
        ]
        if not found:
            raise ConfigError(
                f"no flow is enabled: give one, as in {self.clusters[0]}->{self.clusters[-1]}.{ENABLED}=true"
            )
        return found

    def warn_of_unknown(self) -> None:
        """Name the keys that nothing here takes."""
        unknown = sorted(name for name in self._given if not self._is_known(name))
        if unknown:
            log.warning("unknown settings are ignored keys=%s", ",".join(unknown))

    # -- keys -----------------------------------------------------------------------------------------

    def _flow_prefixes(self) -> Iterator[str]:
        for source in self.clusters:
            for target in self.clusters:
                if source != target:
                    yield f"{source}->{target}."

    def _is_known(self, name: str) -> bool:
        for prefix in self._flow_prefixes():
            if name.startswith(prefix):
                return self._is_of_connectors(name.removeprefix(prefix))
        for alias in self.clusters:
            if name.startswith(f"{alias}."):
                rest = name.removeprefix(f"{alias}.")
                return self._is_of_connectors(rest) or self._is_of_workers(rest) or _is_clients(rest, "x")
        return self._is_of_connectors(name) or self._is_of_workers(name) or _is_common(name)

    def _is_of_connectors(self, name: str) -> bool:
        if name in self._of_connectors or name.startswith(flow_settings.PREFIXES):
            return True
        return name.startswith(("transforms.", "predicates.", "topic.creation.", "errors.", "ottla."))

    def _is_of_workers(self, name: str) -> bool:
        table = worker_settings.TABLE
        return table.find(name) is not None or name.startswith(table.prefixes)

    def _made_providers(self) -> ConfigProviders:
        own = {name: each for name, each in self._given.items() if name.startswith("config.providers")}
        return config_providers(Settings(worker_settings.TABLE, own))

    # -- flows ----------------------------------------------------------------------------------------

    def _flag(self, *names: str, default: bool) -> bool:
        """The first of some keys that is given."""
        for name in names:
            if name in self._given:
                text = self._given[name].text.strip().lower()
                if text not in ("true", "false"):
                    raise ConfigError(
                        f"{self._given[name].origin}{name}={text}: it is neither true nor false"
                    )
                return text == "true"
        return default

    def _is_enabled(self, source: str, target: str) -> bool:
        return self._flag(f"{source}->{target}.{ENABLED}", default=False)

    def _beats(self, source: str, target: str) -> bool:
        return self._flag(f"{source}->{target}.{HEARTBEATS}", HEARTBEATS, default=True)

    def _flow(self, source: str, target: str) -> FlowPlan:
        connectors = {name: self._connector(source, target, name) for name in CONNECTORS}
        worker = self._worker(source, target)
        plan = FlowPlan(source, target, self._is_enabled(source, target), worker, connectors)
        view = WorkerView(is_reference=lambda text: "${" in text)
        for name, config in connectors.items():
            errors = validated(self._catalog, config, view).errors
            if errors:
                raise ConfigError(f"{plan.name}: {name}: {' '.join(errors[0].split())}")
        return plan

    def _cluster(self, alias: str) -> dict[str, Given]:
        """The keys of a cluster without their prefix; security that all clusters share comes first."""
        own = {name: each for name, each in self._given.items() if _is_common_clients(name)}
        prefix = f"{alias}."
        for name, each in self._given.items():
            if name.startswith(prefix):
                own[name.removeprefix(prefix)] = each
        return own

    def _worker(self, source: str, target: str) -> Settings:
        """The settings of a worker, with the values of references: they are of its own clients."""
        given = {
            name: each
            for name, each in {
                **{name: each for name, each in self._given.items() if name.startswith(_COMMON_OF_WORKERS)},
                **self._cluster(target),
            }.items()
            if (self._is_of_workers(name) or _is_clients(name)) and not name.startswith(_NOT_OF_WORKERS)
        }
        defaults = {
            "client.id": f"{source}->{target}",
            "group.id": f"{source}-mm2",
            "offset.storage.topic": f"mm2-offsets.{source}.internal",
            "status.storage.topic": f"mm2-status.{source}.internal",
            "config.storage.topic": f"mm2-configs.{source}.internal",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
        }
        for name, text in defaults.items():
            given.setdefault(name, Given(text))
        resolved = self._providers.resolve(texts(given))
        return Settings(
            worker_settings.TABLE,
            {name: Given(resolved[name], each.origin) for name, each in given.items()},
        )

    def _connector(self, source: str, target: str, name: str) -> dict[str, str]:
        config = {
            key: each.text
            for key, each in self._given.items()
            if self._is_of_connectors(key) or key.startswith(("config.providers", "replication.policy"))
            if not key.startswith(tuple(f"{alias}." for alias in self.clusters))
            if not _is_common_clients(key)
        }
        for side, alias in (("source", source), ("target", target)):
            for key, each in self._cluster(alias).items():
                if key.startswith(_KINDS):
                    config.setdefault(f"{side}.{key}", each.text)
                elif _is_clients(key) and self._is_usable(alias, key, each):
                    config[f"{side}.cluster.{key}"] = each.text
        config["name"] = name
        config["connector.class"] = f"{flow_settings.PACKAGE}{name}"
        config[flow_settings.SOURCE_ALIAS.name] = source
        config[flow_settings.TARGET_ALIAS.name] = target
        prefix = f"{source}->{target}."
        config |= {
            key.removeprefix(prefix): each.text for key, each in self._given.items() if key.startswith(prefix)
        }
        config.setdefault(ENABLED, "false")
        config.setdefault(definitions.TASKS_MAX.name, "1")
        return config

    def _is_usable(self, alias: str, name: str, given: Given) -> bool:
        """Whether a client can have a property; one that none knows is told and left out."""
        if name in _CLIENT_NAMES or name.startswith(_CLIENT_PREFIXES) or "${" in given.text:
            return True
        try:
            require_known(ClusterAccess("127.0.0.1:1", {name: given.text}))
        except ClientOptionError as problem:
            log.warning("%s.%s is ignored: %s", alias, name, problem)
            return False
        return True


def _is_common_clients(name: str) -> bool:
    return name in _CLIENT_NAMES or name.startswith(_CLIENT_PREFIXES)


def _is_common(name: str) -> bool:
    return _is_common_clients(name) or name.startswith(_COMMON_OF_WORKERS)


def _is_clients(name: str, text: str = "") -> bool:
    """Whether a key of a cluster is a property of its clients, and no setting of a worker or connector."""
    if _is_common_clients(name) or name.startswith(_KINDS):
        return True
    return not name.startswith(_COMMON_OF_WORKERS) and worker_settings.TABLE.find(name) is None
