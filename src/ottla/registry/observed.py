"""The registry's metrics and its checks, from the parts of the instance that runs, if any does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.health import Check, Verdict
from ottla.metrics.tables import registry as table
from ottla.registry.instance import RegistryInstance
from ottla.registry.work_ahead import AheadOutcome
from ottla.replicated.metrics_source import group_families, state_families
from ottla.schemas.model import SchemaType
from ottla.web.confluent_families import confluent_families
from ottla.web.request_figures import RequestFigures

Running = Callable[[], RegistryInstance | None]


def registry_families(figures: RequestFigures, instance: RegistryInstance | None) -> Iterator[Family]:
    """All metrics of the registry."""
    yield from confluent_families(table.HTTP, figures)
    statuses = figures.statuses()
    failed = sum(count for status, count in statuses.items() if status >= 400)
    yield single(table.API_SUCCESS, statuses.total() - failed)
    yield single(table.API_FAILURE, failed)
    if instance is None:
        return
    yield single(table.READY, int(instance.is_ready))
    yield from group_families(instance.leadership, instance.member)
    yield single(table.MASTER_ROLE, int(instance.leadership.is_here))
    yield single(table.NODE_COUNT, instance.member.members)
    yield from state_families(instance.states)
    yield from _schemas(instance)
    yield from _keys(instance)
    yield from _long_work(instance)


def _schemas(instance: RegistryInstance) -> Iterator[Family]:
    image = instance.image
    counts = image.counts
    yield single(table.REGISTERED, counts.registered.total())
    yield single(table.DELETED, counts.deleted.total())
    names = [(one, one.value.lower()) for one in SchemaType]
    yield by_label(table.SCHEMAS_CREATED, {name: counts.registered[one] for one, name in names})
    yield by_label(table.SCHEMAS_DELETED, {name: counts.deleted[one] for one, name in names})
    states = (("live", counts.live), ("deleted", counts.softly_deleted))
    yield Family(table.VERSIONS, [((name, state), of[one]) for one, name in names for state, of in states])
    yield single(table.SUBJECTS, image.subject_count)
    yield single(table.CONTEXTS, image.context_count)
    yield single(table.ASSOCIATIONS, len(image.associations()))
    left_out = {instance.topic.spec.name: image.left_out}
    keys, key_image = instance.keys.parts, instance.keys.image
    if keys is not None and key_image is not None:
        left_out[keys.topic.spec.name] = key_image.left_out
    yield by_label(table.LEFT_OUT, left_out)


def _keys(instance: RegistryInstance) -> Iterator[Family]:
    yield single(table.KEYS_LIMIT, instance.keys.limit)
    image = instance.keys.image
    if image is not None:
        yield single(table.KEKS, image.kek_count)
        yield single(table.DEKS, image.dek_count)


def _long_work(instance: RegistryInstance) -> Iterator[Family]:
    ahead, bench = instance.work_ahead, instance.workbench
    yield single(table.LONG_WORK_WAITING, ahead.waiting)
    yield by_label(table.LONG_WORK, {one.value: ahead.outcomes[one] for one in AheadOutcome})
    yield single(table.OUTCOMES_KEPT, bench.kept_count)
    yield single(table.OUTCOMES_WEIGHT, bench.kept_weight)
    yield by_label(table.OUTCOME_LOOKUPS, {"hit": bench.hits, "miss": bench.misses})


def registry_checks(running: Running) -> list[Check]:
    """Whether the registry can be asked.

    A topic that is lost, or a primary that is not known, stops writes alone. The checks tell so and pass, as
    otherwise no instance would serve the schemas that all of them have.
    """
    return [
        Check("registry-topic", lambda: _topic(running())),
        Check("registry-primary", lambda: _primary(running())),
    ]


def _topic(instance: RegistryInstance | None) -> Verdict:
    if instance is None:
        return Verdict(False, "it has not connected to the cluster")
    topic = instance.topic
    name = topic.spec.name
    if not instance.is_ready:
        ends, offsets = topic.read_figures.ends, topic.offsets
        if not ends:
            return Verdict(False, f"topic {name} is to be read, and no record of it has come yet")
        read, end = sum(offsets.get(one, 0) for one in ends), sum(ends.values())
        place = f"{read} of {end}" if read < end else f"{read}, the end of the committed records; it goes on"
        return Verdict(False, f"topic {name} is being read: at offset {place}")
    problem = instance.state.problem
    if problem is not None:
        return Verdict(True, f"writes are refused: {problem}")
    return Verdict(True, f"topic {name} was read to its end, {topic.lag} offsets behind it now")


def _primary(instance: RegistryInstance | None) -> Verdict:
    if instance is None or instance.leadership.url is None:
        return Verdict(instance is not None and instance.is_ready, "no primary is known: writes wait for one")
    where = "this instance" if instance.leadership.is_here else instance.leadership.url
    return Verdict(True, f"the primary is {where}")
