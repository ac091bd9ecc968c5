"""ottla's services on each of the two brokers: lookups in the registry, records through the REST proxy.

The service is ours on both sides; what differs is the broker below it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson
from confluent_kafka import Producer

from bench import clients, processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.http_load import curl_stream, wrk
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server
from support.servers.cluster import ServerError
from support.servers.services import ServiceProcess

SCHEMAS: Final = 10_000
LOOKUP_SECONDS: Final = 10
LOOKUP_CONNECTIONS: Final = 16
WARMUP_SECONDS: Final = 3

_LOOKUPS: Final = """
math.randomseed(7)
local schemas = 10000
request = function()
    return wrk.format("GET", "/schemas/ids/" .. math.random(schemas))
end
"""

BATCH_RECORDS: Final = 500
BATCH_SECONDS: Final = 10
BATCH_CONNECTIONS: Final = 4
_BATCHES: Final = """
init = function(arguments)
    local file = assert(io.open(arguments[1], "rb"))
    wrk.body = file:read("*a")
    file:close()
    wrk.method = "POST"
    wrk.headers["Content-Type"] = arguments[2]
end
"""
STREAMED_RECORDS: Final = 300_000


@contextmanager
def _service(
    turn: Turn, name: str, server: Server, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[ServiceProcess, float]]:
    """A service of ours on this broker, and the seconds from its process's start to its ready line."""
    began = time.perf_counter()
    try:
        with ServiceProcess.start(name, server.bootstrap, turn.workspace, settings) as running:
            yield running, time.perf_counter() - began
    except ServerError as error:
        raise BenchError(f"ottla {name}: {error}") from error


def _record_schema(number: int) -> str:
    """An Avro record of ten fields, as a table's."""
    fields: list[object] = [{"name": f"column_{column}", "type": ["null", "string"]} for column in range(9)]
    fields.append({"name": f"of_{number}", "type": "long"})
    record = {"type": "record", "name": f"Row{number}", "namespace": "bench", "fields": fields}
    return orjson.dumps(record).decode()


def _fill(server: Server) -> None:
    """Write the records of SCHEMAS subjects, as the registry does."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 50, "log_level": 0})
    for number in range(1, SCHEMAS + 1):
        subject = f"table-{number}-value"
        key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
        value = {
            "subject": subject,
            "version": 1,
            "id": number,
            "schema": _record_schema(number),
            "deleted": False,
        }
        producer.produce("_schemas", orjson.dumps(value), orjson.dumps(key), partition=0)
        producer.poll(0)
    if producer.flush(60):
        raise BenchError("the schemas could not be written")


def _registry(turn: Turn) -> dict[str, float]:
    script = turn.workspace / "lookups.lua"
    script.write_text(_LOOKUPS)
    with turn.server() as server:
        with _service(turn, "registry", server):
            pass  # it makes its topic
        _fill(server)
        with _service(turn, "registry", server) as (registry, ready_seconds):
            pid = registry.server.process.pid
            wrk(registry.url, script, seconds=WARMUP_SECONDS, connections=LOOKUP_CONNECTIONS)
            before = processes.cpu_seconds(pid)
            load = wrk(registry.url, script, seconds=LOOKUP_SECONDS, connections=LOOKUP_CONNECTIONS)
            spent = processes.cpu_seconds(pid) - before
            return {
                "ready_seconds": ready_seconds,
                "lookups_per_second": load.requests / load.seconds,
                "lookups_per_core_second": load.requests / spent,
                "resident_mebibytes": processes.resident_bytes(pid) / (1 << 20),
            }


def _values(count: int) -> list[dict[str, object]]:
    """JSON values of about 100 bytes."""
    return [
        {
            "order": 1_000_000 + number,
            "customer": f"customer-{number % 997:04}",
            "amount": number % 10_000 / 100,
            "note": "x" * 30,
        }
        for number in range(count)
    ]


_VALUE_SCHEMA: Final = {
    "type": "record",
    "name": "Sale",
    "namespace": "bench",
    "fields": [
        {"name": "order", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
"""The Avro schema of the values that `_values` makes."""


def _batches(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        clients.create_topic(server)
        with (
            _service(turn, "registry", server) as (registry, _),
            _service(turn, "rest", server, {"schema.registry.url": registry.url}) as (rest, _),
        ):
            in_avro = [{**value, "note": {"string": value["note"]}} for value in _values(BATCH_RECORDS)]
            requests: dict[str, dict[str, object]] = {
                "json": {"records": [{"value": value} for value in _values(BATCH_RECORDS)]},
                "binary": {"records": [{"value": "eHh4" * 33} for _ in range(BATCH_RECORDS)]},
                "avro": {
                    "value_schema_id": _registered(registry),
                    "records": [{"value": value} for value in in_avro],
                },
            }
            figures = {}
            for form, request in requests.items():
                figures |= _post_batches(turn, server, rest, form, request)
            return figures


def _registered(registry: ServiceProcess) -> int:
    import httpx

    body = {"schema": orjson.dumps(_VALUE_SCHEMA).decode()}
    found: int = httpx.post(f"{registry.url}/subjects/{clients.TOPIC}-value/versions", json=body).json()["id"]
    return found


def _post_batches(
    turn: Turn, server: Server, rest: ServiceProcess, form: str, request: dict[str, object]
) -> dict[str, float]:
    body, script = turn.workspace / f"{form}.body", turn.workspace / "batches.lua"
    body.write_bytes(orjson.dumps(request))
    script.write_text(_BATCHES)
    arguments = [str(body), f"application/vnd.kafka.{form}.v2+json"]
    url = f"{rest.url}/topics/{clients.TOPIC}"
    wrk(url, script, seconds=WARMUP_SECONDS, connections=BATCH_CONNECTIONS, arguments=arguments)
    before = clients.end_offsets(server, 1)
    spent_before = processes.cpu_seconds(rest.server.process.pid)
    load = wrk(url, script, seconds=BATCH_SECONDS, connections=BATCH_CONNECTIONS, arguments=arguments)
    spent = processes.cpu_seconds(rest.server.process.pid) - spent_before
    stored = clients.end_offsets(server, 1) - before
    # What wrk left under way, at its end and at the warm-up's, is stored too: one request a connection.
    if not 0 <= stored - load.requests * BATCH_RECORDS <= 2 * BATCH_CONNECTIONS * BATCH_RECORDS:
        raise BenchError(
            f"{stored} records were stored where {load.requests * BATCH_RECORDS} were acknowledged"
        )
    return {
        f"{form}_records_per_second": load.requests * BATCH_RECORDS / load.seconds,
        f"{form}_records_per_core_second": load.requests * BATCH_RECORDS / spent,
    }


def _stream(turn: Turn) -> dict[str, float]:
    records = turn.size(STREAMED_RECORDS)
    with turn.server() as server:
        clients.create_topic(server)
        with _service(turn, "rest", server) as (rest, _):
            url = f"{rest.url}/v3/clusters/{_cluster_id(rest)}/topics/{clients.TOPIC}/records"
            body, answers = turn.workspace / "stream.body", turn.workspace / "stream.answers"
            warm = _write_stream(body, 20_000)
            curl_stream(url, body, "application/json", answers)
            _write_stream(body, records)
            seconds = curl_stream(url, body, "application/json", answers)
            _check_answers(answers, records)
            if (stored := clients.end_offsets(server, 1)) != warm + records:
                raise BenchError(f"{stored} records were stored where {warm + records} were streamed")
            return {"records_per_second": records / seconds}


def _cluster_id(rest: ServiceProcess) -> str:
    import httpx

    found: str = httpx.get(f"{rest.url}/v3/clusters").json()["data"][0]["cluster_id"]
    return found


def _write_stream(path: Path, count: int) -> int:
    with path.open("wb") as file:
        for value in _values(count):
            file.write(orjson.dumps({"value": {"type": "JSON", "data": value}}) + b"\n")
    return count


def _check_answers(path: Path, expected: int) -> None:
    good = path.read_bytes().count(b'"error_code":200')
    if good != expected:
        raise BenchError(f"{good} records of {expected} were acknowledged")


def _at_least(limit: float) -> Target:
    return Target(Bound.VALUE_AT_LEAST, limit)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "registry-lookups",
        f"ottla registry with {SCHEMAS:,} Avro schemas of ten fields in `_schemas`: from the start of its "
        "process to its ready line; then GET /schemas/ids/N of random ids by wrk (1 thread, "
        f"{LOOKUP_CONNECTIONS} connections, {LOOKUP_SECONDS} s after {WARMUP_SECONDS}), told by the second "
        "and by the second of its processor time. The service is ottla's on both sides, as in the two "
        "scenarios that follow: the sides are the brokers below it.",
        (
            Measure("lookups_per_second", "lookups", "lookups/s", _at_least(5_000)),
            Measure("lookups_per_core_second", "lookups a core", "lookups/s", _at_least(5_000)),
            Measure("ready_seconds", "ready", "s", Target(Bound.VALUE_AT_MOST, 5)),
            Measure("resident_mebibytes", "RSS", "MiB"),
        ),
        _registry,
    ),
    Scenario(
        "rest-v2-batches",
        f"ottla rest: POST /topics/T of {BATCH_RECORDS} records of about 100 bytes, as JSON, as base64 and "
        f"in Avro (by a schema's id), by wrk (1 thread, {BATCH_CONNECTIONS} connections, {BATCH_SECONDS} s "
        f"after {WARMUP_SECONDS}), counted by the requests answered and checked by the topic's end; told by "
        "the second, and by the second of the service's processor time. wrk and the broker take the rest of "
        "the machine.",
        (
            Measure("json_records_per_second", "JSON", "records/s", _at_least(100_000)),
            Measure("binary_records_per_second", "binary", "records/s", _at_least(100_000)),
            Measure("avro_records_per_second", "Avro", "records/s", _at_least(100_000)),
            Measure("json_records_per_core_second", "JSON a core", "records/s"),
            Measure("binary_records_per_core_second", "binary a core", "records/s"),
            Measure("avro_records_per_core_second", "Avro a core", "records/s"),
        ),
        _batches,
    ),
    Scenario(
        "rest-v3-stream",
        f"ottla rest: {STREAMED_RECORDS:,} JSON records of about 100 bytes in one chunked POST "
        "/v3/clusters/C/topics/T/records by curl, which takes the answers meanwhile, after 20,000.",
        (Measure("records_per_second", "records", "records/s", _at_least(30_000)),),
        _stream,
    ),
)
