"""A script of calls of Connect's REST API, good and bad ones, with names drawn at random from a seed.

It is recorded once against Java's Connect (record_http.py) and replayed on ottla. The file connectors are
those of Java's connect-file, which read and write nothing much here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

SEED: Final = 22
SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._-"
_ODD: Final = ("with space", "plus+and%percent", "ünïcödé", "dots..dots", "semi;colon", "a&b=c", "tilde~")


@dataclass(frozen=True, slots=True)
class Call:
    """One request. until: it is sent again until its answer fits (state, number of tasks).

    raw: a body that is no JSON of `body`. said: the part of the answer that Connect fixes: all ("text"), its
    keys and types ("shape"), a judgement's fields ("fields"), definitions ("keys"), or the status alone.
    """

    method: str
    path: str
    body: Any = None
    raw: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    until: tuple[str, int | None] | None = None
    said: str = "text"


def script(directory: str, seed: int = SEED) -> list[Call]:
    """All calls. directory: a place for files, the same on both sides but for its name."""
    drawn = random.Random(seed)
    calls = _Calls(directory, drawn)
    return list(calls.all())


class _Calls:
    def __init__(self, directory: str, drawn: random.Random) -> None:
        self._directory = directory
        self._drawn = drawn
        self._odd = list(_ODD)
        drawn.shuffle(self._odd)

    def _name(self) -> str:
        return "c" + "".join(self._drawn.choices(_LETTERS, k=self._drawn.randint(1, 20)))

    def _source(self, **more: Any) -> dict[str, Any]:
        return {"connector.class": SOURCE, "topic": "lines", "file": f"{self._directory}/in.txt", **more}

    def _sink(self, **more: Any) -> dict[str, Any]:
        return {"connector.class": SINK, "topics": "lines", "file": f"{self._directory}/out.txt", **more}

    def all(self) -> Iterator[Call]:
        parts: list[Callable[[], Iterator[Call]]] = [
            self.root,
            self.nothing_yet,
            self.bad_bodies,
            self.bad_configs,
            self.life_of_a_source,
            self.life_of_a_sink,
            self.odd_names,
            self.initial_states,
            self.plugins,
            self.validate,
            self.loggers,
        ]
        for part in parts:
            yield from part()

    def root(self) -> Iterator[Call]:
        yield Call("GET", "/", said="shape")
        yield Call("GET", "/health")
        yield Call("GET", "/nowhere", said="text")
        yield Call("POST", "/", {}, said="text")
        yield Call("DELETE", "/connectors", said="text")
        yield Call("PUT", "/connectors", {}, said="text")
        yield Call("GET", "/connectors/")

    def nothing_yet(self) -> Iterator[Call]:
        name = self._name()
        yield Call("GET", "/connectors")
        yield Call("GET", "/connectors?expand=status")
        yield Call("GET", "/connectors?expand=info&expand=status")
        yield Call("GET", "/connectors?expand=nonsense")
        for path in (
            "",
            "/config",
            "/status",
            "/tasks",
            "/tasks-config",
            "/topics",
            "/offsets",
            "/tasks/0/status",
        ):
            yield Call("GET", f"/connectors/{name}{path}")
        for path in ("/pause", "/resume", "/stop", "/topics/reset"):
            yield Call("PUT", f"/connectors/{name}{path}")
        yield Call("POST", f"/connectors/{name}/restart")
        yield Call("POST", f"/connectors/{name}/restart?includeTasks=true")
        yield Call("POST", f"/connectors/{name}/restart?onlyFailed=true&includeTasks=true")
        yield Call("POST", f"/connectors/{name}/restart?onlyFailed=nonsense", said="status")
        yield Call("POST", f"/connectors/{name}/tasks/0/restart")
        yield Call("POST", f"/connectors/{name}/tasks/none/restart")
        yield Call("GET", f"/connectors/{name}/tasks/none/status")
        yield Call("DELETE", f"/connectors/{name}")
        yield Call("DELETE", f"/connectors/{name}/offsets")
        yield Call("PATCH", f"/connectors/{name}/config", {"a": "b"})
        offsets = {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]}
        yield Call("PATCH", f"/connectors/{name}/offsets", offsets)
        yield Call("PATCH", f"/connectors/{name}/offsets", {"offsets": []})
        yield Call("PATCH", f"/connectors/{name}/offsets", {})

    def bad_bodies(self) -> Iterator[Call]:
        name = self._name()
        yield Call("POST", "/connectors", raw="", said="status")
        yield Call("POST", "/connectors", raw="{", said="status")
        yield Call("POST", "/connectors", raw="[]", said="status")
        yield Call("POST", "/connectors", raw="null", said="status")
        yield Call("POST", "/connectors", raw='"text"', said="status")
        yield Call("POST", "/connectors", {"name": name, "config": "text"}, said="status")
        yield Call("POST", "/connectors", {"name": name, "config": ["x"]}, said="status")
        yield Call("POST", "/connectors", {"name": name, "config": {"a": {"b": "c"}}}, said="status")
        yield Call("POST", "/connectors", {"name": name, "config": None}, said="status")
        yield Call("POST", "/connectors", {"name": name}, said="status")
        yield Call("POST", "/connectors", {"name": name, "config": {}, "unknown": 1}, said="status")
        yield Call(
            "POST",
            "/connectors",
            {"name": name, "config": self._source(), "initial_state": "ASLEEP"},
            said="status",
        )
        yield Call(
            "POST", "/connectors", raw="a=b", headers=(("content-type", "application/x-www-form-urlencoded"),)
        )
        yield Call("POST", "/connectors", raw="<a/>", headers=(("content-type", "text/xml"),))
        yield Call("PUT", f"/connectors/{name}/config", raw="", said="status")
        yield Call("PUT", f"/connectors/{name}/config", raw="{", said="status")
        yield Call("PUT", f"/connectors/{name}/config", ["x"], said="status")
        yield Call("PUT", f"/connectors/{name}/config", {"a": ["b"]}, said="status")
        yield Call("PATCH", f"/connectors/{name}/offsets", raw="{", said="status")
        yield Call("PATCH", f"/connectors/{name}/offsets", {"offsets": "x"}, said="status")
        yield Call("GET", "/connectors", headers=(("accept", "text/xml"),))
        yield Call("GET", "/connectors", headers=(("accept", "application/json;q=0.5"),))

    def bad_configs(self) -> Iterator[Call]:
        name = self._name()
        url = f"/connectors/{name}/config"
        yield Call("POST", "/connectors", {"name": name, "config": {}})
        yield Call("POST", "/connectors", {"name": name, "config": self._source(name="other")})
        yield Call("POST", "/connectors", {"name": "", "config": self._source()})
        yield Call("POST", "/connectors", {"config": self._source()})
        yield Call("POST", "/connectors", {"name": "  ", "config": self._source()})
        yield Call("POST", "/connectors", {"name": "a\u0007b", "config": self._source()})
        yield Call(
            "POST",
            "/connectors",
            {"name": name, "config": {"connector.class": "org.acme.Nothing"}},
            said="status",
        )
        yield Call("PUT", url, {"connector.class": SOURCE})
        yield Call("PUT", url, self._source(name="other"))
        yield Call("PUT", url, self._source(**{"tasks.max": "none"}))
        yield Call("PUT", url, self._source(**{"tasks.max": "0"}))
        yield Call("PUT", url, self._source(**{"tasks.max": "-1", "batch.size": "x"}))
        yield Call("PUT", url, self._source(**{"errors.tolerance": "some"}))
        yield Call("PUT", url, self._source(**{"errors.retry.timeout": "1.5"}))
        yield Call("PUT", url, self._source(**{"exactly.once.support": "maybe"}))
        yield Call("PUT", url, self._source(**{"config.action.reload": "later"}))
        yield Call("PUT", url, self._source(**{"transaction.boundary": "never"}))
        yield Call("PUT", url, self._source(**{"transaction.boundary.interval.ms": "-1"}))
        yield Call("PUT", url, self._source(**{"key.converter": "org.acme.Nothing"}), said="status")
        yield Call("PUT", url, self._source(**{"value.converter": "java.lang.String"}), said="status")
        yield Call("PUT", url, self._source(transforms="a"))
        yield Call("PUT", url, self._source(transforms="a,a"), said="status")
        yield Call(
            "PUT", url, self._source(**{"transforms": "a", "transforms.a.type": "org.acme.X"}), said="status"
        )
        yield Call("PUT", url, self._sink(topics=""))
        yield Call("PUT", url, self._sink(**{"topics.regex": "l.*"}))
        yield Call("PUT", url, self._sink(**{"topics": "", "topics.regex": "["}), said="status")
        yield Call("PUT", url, self._sink(**{"errors.deadletterqueue.topic.name": "lines"}))
        yield Call("PUT", url, self._sink(**{"errors.deadletterqueue.context.headers.enable": "perhaps"}))
        yield Call("PUT", url, self._source(**{"batch.size": None}), said="status")
        yield Call("GET", f"/connectors/{name}", said="shape")

    def life_of_a_source(self) -> Iterator[Call]:
        name = self._name()
        url = f"/connectors/{quote(name)}"
        config = self._source()
        yield Call("POST", "/connectors", {"name": name, "config": config})
        yield Call("POST", "/connectors", {"name": name, "config": config})
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("GET", url)
        yield Call("GET", f"{url}/config")
        yield Call("GET", f"{url}/tasks", said="shape")
        yield Call("GET", f"{url}/tasks-config", said="shape")
        yield Call("GET", f"{url}/tasks/0/status")
        yield Call("GET", f"{url}/tasks/7/status")
        yield Call("GET", f"{url}/topics", said="shape")
        yield Call("PUT", f"{url}/topics/reset")
        yield Call("GET", "/connectors")
        yield Call("GET", "/connectors?expand=info", said="shape")
        yield Call("GET", "/connectors?expand=status&expand=info", said="shape")
        yield Call("PUT", f"{url}/config", {**config, "tasks.max": "3"})
        yield Call("GET", f"{url}/config")
        yield Call("PATCH", f"{url}/config", {"tasks.max": None, "batch.size": "17"})
        yield Call("GET", f"{url}/config")
        yield Call("PATCH", f"{url}/config", {"batch.size": "x"})
        yield Call("PATCH", f"{url}/config", {"name": "other"}, said="status")
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("PUT", f"{url}/pause")
        yield Call("PUT", f"{url}/pause")
        yield Call("GET", f"{url}/status", until=("PAUSED", 1))
        yield Call("POST", f"{url}/restart?includeTasks=true", said="shape")
        yield Call("PUT", f"{url}/resume")
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("POST", f"{url}/restart")
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("POST", f"{url}/tasks/0/restart")
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("POST", f"{url}/tasks/9/restart")
        yield Call("POST", f"{url}/restart?onlyFailed=true&includeTasks=true", said="shape")
        yield Call("GET", f"{url}/offsets", said="shape")
        yield Call("DELETE", f"{url}/offsets")
        offsets = {"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]}
        yield Call("PATCH", f"{url}/offsets", offsets)
        yield Call("PUT", f"{url}/stop")
        yield Call("PUT", f"{url}/stop")
        yield Call("GET", f"{url}/status", until=("STOPPED", 0))
        yield Call("GET", f"{url}/tasks")
        yield Call("GET", url)
        yield Call("GET", f"{url}/offsets", said="shape")
        yield Call("PATCH", f"{url}/offsets", offsets)
        yield Call("GET", f"{url}/offsets", said="shape")
        yield Call("DELETE", f"{url}/offsets")
        yield Call("DELETE", f"{url}/offsets")
        yield Call("GET", f"{url}/offsets")
        yield Call("POST", f"{url}/restart?includeTasks=true", said="shape")
        yield Call("PUT", f"{url}/resume")
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("DELETE", url)
        yield Call("DELETE", url)
        yield Call("GET", url)
        yield Call("GET", f"{url}/status", until=("404", None))

    def life_of_a_sink(self) -> Iterator[Call]:
        name = self._name()
        url = f"/connectors/{quote(name)}"
        config = self._sink(**{"tasks.max": "2", "connector.class": "FileStreamSink"})
        yield Call("PUT", f"{url}/config", config)
        yield Call("GET", f"{url}/status", until=("RUNNING", 2))
        yield Call("GET", url)
        yield Call("GET", f"{url}/tasks", said="shape")
        yield Call("PUT", f"{url}/config", {**config, "tasks.max": "1"})
        yield Call("GET", f"{url}/status", until=("RUNNING", 1))
        yield Call("GET", f"{url}/offsets", said="shape")
        yield Call("PUT", f"{url}/stop")
        yield Call("GET", f"{url}/status", until=("STOPPED", 0))
        place = {"kafka_topic": "lines", "kafka_partition": 0}
        yield Call(
            "PATCH", f"{url}/offsets", {"offsets": [{"partition": place, "offset": {"kafka_offset": 0}}]}
        )
        yield Call(
            "PATCH",
            f"{url}/offsets",
            {"offsets": [{"partition": {"kafka_topic": "lines"}, "offset": {"kafka_offset": 0}}]},
            said="status",
        )
        yield Call(
            "PATCH",
            f"{url}/offsets",
            {"offsets": [{"partition": place, "offset": {"position": 0}}]},
            said="status",
        )
        yield Call(
            "PATCH",
            f"{url}/offsets",
            {"offsets": [{"partition": place, "offset": {"kafka_offset": "x"}}]},
            said="status",
        )
        yield Call("GET", f"{url}/offsets", said="shape")
        yield Call("DELETE", f"{url}/offsets", said="shape")
        yield Call("DELETE", url)

    def odd_names(self) -> Iterator[Call]:
        for name in self._odd[:4]:
            url = f"/connectors/{quote(name, safe='')}"
            yield Call("PUT", f"{url}/config", self._source())
            yield Call("GET", f"{url}/status", until=("RUNNING", 1))
            yield Call("GET", url)
            yield Call("DELETE", url)
        yield Call("POST", "/connectors", {"name": "  trimmed ", "config": self._source()})
        yield Call("DELETE", "/connectors/trimmed")

    def initial_states(self) -> Iterator[Call]:
        for state in ("STOPPED", "paused", "RUNNING", None):
            name = self._name()
            url = f"/connectors/{quote(name)}"
            yield Call(
                "POST", "/connectors", {"name": name, "config": self._source(), "initial_state": state}
            )
            tasks = 1 if state in ("RUNNING", None) else 0
            yield Call("GET", f"{url}/status", until=((state or "RUNNING").upper(), tasks))
            yield Call("DELETE", url)

    def plugins(self) -> Iterator[Call]:
        yield Call("GET", "/connector-plugins", said="shape")
        yield Call("GET", "/connector-plugins?connectorsOnly=false", said="shape")
        yield Call("GET", "/connector-plugins/org.acme.Nothing/config")
        yield Call("GET", f"/connector-plugins/{SOURCE}/config", said="keys")
        yield Call("GET", "/connector-plugins/FileStreamSink/config", said="keys")
        yield Call("GET", "/connector-plugins/FileStreamSinkConnector/config", said="keys")
        yield Call(
            "GET", "/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config", said="keys"
        )
        yield Call(
            "GET",
            "/connector-plugins/org.apache.kafka.connect.transforms.InsertField$Value/config",
            said="keys",
        )
        yield Call(
            "GET",
            "/connector-plugins/org.apache.kafka.connect.transforms.predicates.HasHeaderKey/config",
            said="keys",
        )

    def validate(self) -> Iterator[Call]:
        url = "/connector-plugins/FileStreamSource/config/validate"
        sink = f"/connector-plugins/{SINK}/config/validate"
        cast = "org.apache.kafka.connect.transforms.Cast$Value"
        filtering = "org.apache.kafka.connect.transforms.Filter"
        named = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
        for each, config in (
            (url, self._source(name="v")),
            (url, self._source()),
            (url, {"connector.class": SOURCE}),
            (url, {"connector.class": SOURCE, "name": "v", "tasks.max": "x", "batch.size": "y"}),
            (
                url,
                self._source(
                    name="v",
                    **{
                        "transforms": "one,two",
                        "transforms.one.type": cast,
                        "transforms.one.spec": "int8",
                        "transforms.two.type": filtering,
                        "transforms.two.predicate": "p",
                        "predicates": "p",
                        "predicates.p.type": named,
                        "predicates.p.pattern": "l.*",
                    },
                ),
            ),
            (url, self._source(name="v", **{"transforms": "one", "transforms.one.type": cast})),
            (url, self._source(name="v", transforms="one")),
            (
                url,
                self._source(
                    name="v",
                    **{
                        "transforms": "one",
                        "transforms.one.type": cast,
                        "transforms.one.spec": "int8",
                        "transforms.one.negate": "true",
                    },
                ),
            ),
            (url, self._source(name="v", predicates="p")),
            (
                url,
                self._source(
                    name="v",
                    **{
                        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                        "key.converter.schemas.enable": "perhaps",
                    },
                ),
            ),
            (
                url,
                self._source(
                    name="v", **{"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
                ),
            ),
            (url, self._source(name="v", **{"header.converter": "org.acme.Nothing"})),
            (url, self._source(name="v", **{"producer.override.linger.ms": "5"})),
            (url, self._source(name="v", **{"unknown.key": "5"})),
            (url, self._source(name="v", **{"connector.plugin.version": "4.3.1"})),
            (sink, self._sink(name="v")),
            (sink, self._sink(name="v", topics="")),
            (sink, self._sink(name="v", topics="a,,b")),
            (sink, self._sink(name="v", topics="a,a")),
            (
                sink,
                self._sink(
                    name="v",
                    **{
                        "errors.deadletterqueue.topic.name": "dead",
                        "consumer.override.max.poll.records": "5",
                    },
                ),
            ),
        ):
            yield Call("PUT", each, config, said="fields")
        yield Call("PUT", url, {"connector.class": SINK})
        yield Call("PUT", url, {}, said="status")
        yield Call("PUT", url, {"topic": "x"}, said="status")
        yield Call(
            "PUT",
            "/connector-plugins/org.acme.Nothing/config/validate",
            {"connector.class": "org.acme.Nothing"},
            said="status",
        )
        yield Call("PUT", url, raw="[", said="status")

    def loggers(self) -> Iterator[Call]:
        yield Call("GET", "/admin/loggers", said="loggers")
        yield Call("GET", "/admin/loggers/root", said="shape")
        yield Call("GET", "/admin/loggers/org.acme.nothing", said="status")
        yield Call("PUT", "/admin/loggers/org.acme.x", {"level": "DEBUG"}, said="shape")
        yield Call("GET", "/admin/loggers/org.acme.x", said="shape")
        yield Call("PUT", "/admin/loggers/org.acme.x", {"level": "loud"})
        yield Call("PUT", "/admin/loggers/org.acme.x", {})
        yield Call("PUT", "/admin/loggers/org.acme.x?scope=cluster", {"level": "WARN"})
        yield Call("PUT", "/admin/loggers/org.acme.x?scope=galaxy", {"level": "INFO"}, said="shape")
