"""The metrics of Schema Registry: Confluent's by the names of the JMX exporter's rules, then ottla's own."""

from __future__ import annotations

from typing import Final

from ottla.metrics.confluent_http import http_metrics
from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Schema Registry"

_MBEAN: Final = "kafka.schema.registry:type="
_REPLAYED: Final = (
    "counts the records that are in the topic: compaction takes former ones away before a restart"
)


def _panel(title: str) -> Panel:
    return Panel(Dashboard.SERVICES, "Schema Registry", title)


MASTER_ROLE: Final = Metric(
    "kafka_schema_registry_master_slave_role",
    Kind.GAUGE,
    "1 on the instance that is the primary, 0 on the others.",
    unit=Unit.FLAG,
    origin=f"{_MBEAN}master-slave-role",
)
NODE_COUNT: Final = Metric(
    "kafka_schema_registry_node_count",
    Kind.GAUGE,
    "Instances of the registry's group, as its leader has counted them; 0 on other instances.",
    panel=_panel("Instances"),
    origin=f"{_MBEAN}node-count",
    differs="one instance, the leader of the group, knows it",
)
REGISTERED: Final = Metric(
    "kafka_schema_registry_registered_count",
    Kind.COUNTER,
    "Versions that were registered.",
    panel=_panel("Registered a second"),
    origin=f"{_MBEAN}registered-count",
    differs=_REPLAYED,
)
DELETED: Final = Metric(
    "kafka_schema_registry_deleted_count",
    Kind.COUNTER,
    "Versions that were deleted, softly or at once.",
    panel=_panel("Deleted a second"),
    origin=f"{_MBEAN}deleted-count",
    differs=_REPLAYED,
)
SCHEMAS_CREATED: Final = Metric(
    "kafka_schema_registry_schemas_created",
    Kind.COUNTER,
    "Versions that were registered, by format: avro, json, protobuf.",
    ("schema_type",),
    origin=f"{_MBEAN}avro-schemas-created",
    differs=_REPLAYED,
)
SCHEMAS_DELETED: Final = Metric(
    "kafka_schema_registry_schemas_deleted",
    Kind.COUNTER,
    "Versions that were deleted, by format.",
    ("schema_type",),
    origin=f"{_MBEAN}avro-schemas-deleted",
    differs=_REPLAYED,
)
API_SUCCESS: Final = Metric(
    "kafka_schema_registry_api_success_count",
    Kind.COUNTER,
    "Requests that were answered with a status below 400.",
    origin=f"{_MBEAN}api-success-count",
)
API_FAILURE: Final = Metric(
    "kafka_schema_registry_api_failure_count",
    Kind.COUNTER,
    "Requests that were answered with a status of 400 or above, or not at all.",
    origin=f"{_MBEAN}api-failure-count",
)

HTTP: Final = http_metrics("kafka_schema_registry", "kafka.schema.registry")

VERSIONS: Final = Metric(
    "ottla_registry_versions",
    Kind.GAUGE,
    "Versions that there are, by format and state: live, deleted (softly).",
    ("schema_type", "state"),
    panel=_panel("Versions"),
)
SUBJECTS: Final = Metric(
    "ottla_registry_subjects",
    Kind.GAUGE,
    "Subjects that have a version, softly deleted ones too.",
    panel=_panel("Subjects"),
)
CONTEXTS: Final = Metric("ottla_registry_contexts", Kind.GAUGE, "Contexts, the default one among them.")
ASSOCIATIONS: Final = Metric(
    "ottla_registry_associations", Kind.GAUGE, "Associations of resources with subjects."
)
LEFT_OUT: Final = Metric(
    "ottla_registry_unreadable_records_total",
    Kind.COUNTER,
    "Records of the registry's topics that could not be read and are left out.",
    ("topic",),
    panel=_panel("Unreadable records"),
)
READY: Final = Metric(
    "ottla_registry_ready",
    Kind.GAUGE,
    "1 once the topic was replayed to the end that it had at the start; until then nothing is answered.",
    unit=Unit.FLAG,
)
KEKS: Final = Metric(
    "ottla_registry_keks", Kind.GAUGE, "Key encryption keys, once a request has asked for keys."
)
DEKS: Final = Metric(
    "ottla_registry_deks", Kind.GAUGE, "Versions of data encryption keys.", panel=_panel("Keys")
)
KEYS_LIMIT: Final = Metric(
    "ottla_registry_keys_limit", Kind.GAUGE, "The most keys that the registry takes, by its settings."
)
LONG_WORK_WAITING: Final = Metric(
    "ottla_registry_long_work_waiting",
    Kind.GAUGE,
    "Requests whose long work on schemas is done ahead of their turn, or waits for a thread.",
    panel=_panel("Long work under way"),
)
LONG_WORK: Final = Metric(
    "ottla_registry_long_work_total",
    Kind.COUNTER,
    "Times that work on schemas was too long for a turn and was done ahead, by outcome: done, client_gone, "
    "given_up (the request's time was over).",
    ("outcome",),
)
OUTCOMES_KEPT: Final = Metric(
    "ottla_registry_outcomes_kept", Kind.GAUGE, "Outcomes of parsing and comparing that are kept in memory."
)
OUTCOMES_WEIGHT: Final = Metric(
    "ottla_registry_outcomes_kept_characters",
    Kind.GAUGE,
    "Their weight, about the characters of their schemas.",
)
OUTCOME_LOOKUPS: Final = Metric(
    "ottla_registry_outcome_lookups_total",
    Kind.COUNTER,
    "Times that an outcome was asked for: hit where it was kept, miss where the work had to be done.",
    ("result",),
    panel=_panel("Kept outcomes asked for a second"),
)

METRICS: Final = metrics_in(globals())
