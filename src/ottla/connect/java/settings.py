"""The settings of a worker that concern its Java worker, and the properties that the Java worker is given."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.java_names import without_listeners_tls
from ottla.config.setting import LOW, Table, by_name, integer, string, string_list
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.config.validators import Rule, at_least

OVERRIDES: Final = "ottla.java.worker."
"""Properties of the Java worker alone, behind this prefix; they win over the worker's."""
_SIZE: Final = re.compile(r"[1-9][0-9]{0,9}[kKmMgG]")
_JAVA: Final = "-java"
_CLIENTS: Final = ("producer.", "consumer.", "admin.")
_SECURITY: Final = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")
_TOPICS: Final = {
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
}
_OF_OURS: Final = (
    "access.control.",
    "admin.listeners",
    "authentication.",
    "listener",
    "metrics.",
    "offset.storage.file.filename",
    "ottla.",
    "response.http.",
    "rest.",
)
"""Beginnings of properties that the worker's own REST API and processes have; the Java worker has others."""
_DEFAULTS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    # as many replicas as the cluster's default.replication.factor says
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    # Java's own 5 minutes would hold back the tasks of a Java worker that is started again
    "scheduled.rebalance.max.delay.ms": "0",
}
"""Where neither the worker's file nor OVERRIDES say otherwise."""
_EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_ALLOWED_ENDPOINTS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def _size(text: Any) -> str | None:
    return None if _SIZE.fullmatch(text) else "must be a size as java's -Xmx takes it, like 512m or 2g"


PLUGIN_PATH: Final = string_list(
    "plugin.path",
    (),
    "Directories of Java's plugins, which run in a Java worker of ottla's; a standalone worker runs none.",
    importance=LOW,
)
"""In each, a directory a plugin, or jars with all that they need. None: no Java plugins, no Java worker."""
HEAP: Final = string(
    "ottla.java.heap",
    "512m",
    "The largest heap of the Java worker.",
    Rule("a size such as 512m or 2g", _size),
    importance=LOW,
)
START_TIMEOUT_MS: Final = integer(
    "ottla.java.start.timeout.ms",
    120_000,
    "How long the Java worker may take until it answers, before it is ended and started again.",
    at_least(1_000),
    importance=LOW,
)
ADVERTISED_HOST: Final = string(
    "ottla.java.host",
    "127.0.0.1",
    "The address on which the Java worker listens, at a free port, and by which the group's other Java "
    "workers reach it. A cluster of workers on several machines needs one that these can reach.",
    importance=LOW,
)
JAVA_SETTINGS: Final = (PLUGIN_PATH, HEAP, START_TIMEOUT_MS, ADVERTISED_HOST)
TABLE: Final = Table("Java worker", by_name(JAVA_SETTINGS), prefixes=(OVERRIDES,))


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """A Java worker to be started.

    access: to its cluster. properties: of the file that it reads. user, password: of its REST API. system:
    Java's own properties (-D). config_topic: where its connectors stand.
    """

    access: ClusterAccess
    properties: Mapping[str, str] = field(repr=False)
    user: str
    password: str = field(repr=False)
    heap: str
    start_timeout_ms: int
    system: Mapping[str, str]
    config_topic: str


def java_options(worker: Mapping[str, str]) -> JavaOptions | None:
    """The Java worker of a worker with these properties; None without a plugin.path.

    Raises ConfigError, ClientOptionError.
    """
    own = {name: text for name, text in worker.items() if name in TABLE.settings}
    settings = Settings(TABLE, from_mapping(own))
    directories = [each for each in settings[PLUGIN_PATH] if each]
    if not directories:
        return None
    security = _security(worker)
    bootstrap = worker.get("bootstrap.servers", "")
    access = ClusterAccess(bootstrap, security)
    given = {
        **_passed_on(worker),
        **_names(worker),
        **_client_properties(bootstrap, worker),
        "plugin.path": ",".join(directories),
        **_rest(settings[ADVERTISED_HOST]),
    }
    given |= {
        name.removeprefix(OVERRIDES): text for name, text in worker.items() if name.startswith(OVERRIDES)
    }
    return JavaOptions(
        access=access,
        properties=given,
        user="ottla",
        password=_password(given["group.id"], security),
        heap=settings[HEAP],
        start_timeout_ms=settings[START_TIMEOUT_MS],
        system=_system(given),
        config_topic=given["config.storage.topic"],
    )


def _passed_on(worker: Mapping[str, str]) -> dict[str, str]:
    """The properties that mean the same to both workers."""
    left_out = (*_OF_OURS, *_SECURITY, *_CLIENTS)
    kept = {name: text for name, text in worker.items() if not name.startswith(left_out)}
    return {**_DEFAULTS, **kept}


def _names(worker: Mapping[str, str]) -> dict[str, str]:
    """A group and topics beside those of the worker: a Java worker in its group would be handed its tasks."""
    names = {"group.id": worker.get("group.id", "connect-standalone") + _JAVA}
    for name, usual in _TOPICS.items():
        names[name] = worker.get(name, usual) + _JAVA
    return names


def _security(worker: Mapping[str, str]) -> dict[str, str]:
    return without_listeners_tls({k: text for k, text in worker.items() if k.startswith(_SECURITY)})


def _client_properties(bootstrap: str, worker: Mapping[str, str]) -> dict[str, str]:
    """How the Java worker, and the clients of its connectors, reach the cluster.

    In Connect the clients of connectors have no security unless it is said behind their prefixes. Here the
    worker's own holds for a kind of clients for which none is said.
    """
    own = _security(worker)
    found = _java_names(bootstrap, own)
    for prefix in _CLIENTS:
        given = {name.removeprefix(prefix): text for name, text in worker.items() if name.startswith(prefix)}
        secured = {name: text for name, text in given.items() if name.startswith(_SECURITY)}
        rest = {name: text for name, text in given.items() if name not in secured}
        java = {**rest, **_java_names(bootstrap, secured or own)}
        found |= {prefix + name: text for name, text in java.items() if name != "bootstrap.servers"}
        if "bootstrap.servers" in rest:
            found[f"{prefix}bootstrap.servers"] = rest["bootstrap.servers"]
    return found


def _java_names(bootstrap: str, security: Mapping[str, str]) -> dict[str, str]:
    """Security properties by the names of Java's clients, whichever names they were given by.

    Raises ClientOptionError.
    """
    by_token = security.get("sasl.mechanism", "").upper() == "OAUTHBEARER"
    # Java's clients log in by bearer tokens themselves, with the same properties.
    kept = {name: text for name, text in security.items() if by_token and name.startswith("sasl.")}
    access = ClusterAccess(bootstrap, {name: text for name, text in security.items() if name not in kept})
    return {**access.java(), **kept}


def _rest(host: str) -> dict[str, str]:
    shown = f"[{host}]" if ":" in host else host
    return {
        "listeners": f"http://{shown}:0",
        "rest.advertised.host.name": host,
        "rest.extension.classes": _EXTENSION,
    }


def _password(group: str, security: Mapping[str, str]) -> str:
    """The password of the REST API, the same on all workers of a group; it is made of their login to Kafka.

    Where there is no login there is nothing to protect: anyone can write connectors into the topic itself.
    """
    secret = "\n".join(f"{name}={text}" for name, text in sorted(security.items()))
    return hmac.new(secret.encode(), f"connect {group}".encode(), hashlib.sha256).hexdigest()


def _system(given: Mapping[str, str]) -> dict[str, str]:
    """Kafka's clients ask for tokens only where a property of Java allows the address."""
    endpoints = {text for name, text in given.items() if name.endswith(_TOKEN_ENDPOINT)}
    return {_ALLOWED_ENDPOINTS: ",".join(sorted(endpoints))} if endpoints else {}
