"""Changes of quotas: which are made, which are refused, and which entities a filter matches."""

from __future__ import annotations

import math

import pytest

from ottla.core.decisions.client_quotas import change_quotas
from ottla.core.image.image import MetadataImage, QuotaEntity
from ottla.core.quotas.filters import MatchType, QuotaFilter
from ottla.protocol.errors import ErrorCode, KafkaError, PolicyViolation
from ottla.protocol.messages.alter_client_quotas_request import EntityData, EntryData, OpData
from ottla.protocol.messages.describe_client_quotas_request import ComponentData
from support.core.metadata import apply, image_with_brokers

ALICE: QuotaEntity = (("user", "alice"),)
PRODUCE, CONSUME, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


def entry(entity: QuotaEntity, *changes: tuple[str, float | None]) -> EntryData:
    """Changes of an entity; the value None removes."""
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes],
    )


def change(image: MetadataImage, *entries: EntryData) -> dict[QuotaEntity, ErrorCode]:
    records, outcomes = change_quotas(image, entries, unknown_hosts={"nowhere.invalid"})
    apply(image, records)
    return {entity: each.code if each else ErrorCode.NONE for entity, each in outcomes.items()}


@pytest.fixture
def image() -> MetadataImage:
    return image_with_brokers([1])


def test_quotas_are_set_changed_and_removed(image: MetadataImage) -> None:
    assert change(image, entry(ALICE, (PRODUCE, 100.0), (TIME, 12.5))) == {ALICE: ErrorCode.NONE}
    assert image.client_quotas == {ALICE: {PRODUCE: 100.0, TIME: 12.5}}
    change(image, entry(ALICE, (PRODUCE, 200.0), (CONSUME, None)))
    assert image.client_quotas == {ALICE: {PRODUCE: 200.0, TIME: 12.5}}
    change(image, entry(ALICE, (PRODUCE, None), (TIME, None)))
    assert image.client_quotas == {}


def test_a_user_and_client_id_in_either_order_are_one_entity(image: MetadataImage) -> None:
    both = (("client-id", None), ("user", "alice"))
    change(image, entry((("user", "alice"), ("client-id", None)), (PRODUCE, 1.0)))
    change(image, entry(both, (CONSUME, 2.0)))
    assert image.client_quotas == {both: {PRODUCE: 1.0, CONSUME: 2.0}}


def test_a_change_without_effect_writes_no_record(image: MetadataImage) -> None:
    change(image, entry(ALICE, (PRODUCE, 100.0)))
    records, _ = change_quotas(image, [entry(ALICE, (PRODUCE, 100.0), (CONSUME, None))], ())
    assert records == []


REFUSED: list[tuple[QuotaEntity, list[tuple[str, float | None]]]] = [
    ((), [(PRODUCE, 1.0)]),
    ((("planet", "mars"),), [(PRODUCE, 1.0)]),
    ((("user", ""),), [(PRODUCE, 1.0)]),
    ((("ip", "10.0.0.1"), ("user", "alice")), [(PRODUCE, 1.0)]),
    ((("ip", "nowhere.invalid"),), [("connection_creation_rate", 1.0)]),
    ((("ip", "10.0.0.1"),), [(PRODUCE, 1.0)]),
    ((("ip", "10.0.0.1"),), [("connection_creation_rate", 2.0**31)]),
    (ALICE, [("connection_creation_rate", 1.0)]),
    (ALICE, [("bytes", 1.0)]),
    (ALICE, [(PRODUCE, 0.0)]),
    (ALICE, [(PRODUCE, -1.0)]),
    (ALICE, [(PRODUCE, 1.5)]),
    (ALICE, [(PRODUCE, 1e30)]),
    (ALICE, [(TIME, math.nan)]),
    (ALICE, [(CONSUME, 5.0), (PRODUCE, 0.0)]),
    (ALICE, [(PRODUCE, 1.0), (PRODUCE, 2.0)]),
]


@pytest.mark.parametrize(("entity", "changes"), REFUSED)
def test_what_makes_no_sense_is_refused_as_a_whole_and_others_are_made(
    image: MetadataImage, entity: QuotaEntity, changes: list[tuple[str, float | None]]
) -> None:
    other = (("client-id", "app"),)
    assert change(image, entry(entity, *changes), entry(other, (PRODUCE, 1.0))) == {
        entity: ErrorCode.INVALID_REQUEST,
        other: ErrorCode.NONE,
    }
    assert image.client_quotas == {other: {PRODUCE: 1.0}}


def test_one_request_makes_no_more_than_ten_thousand_changes(image: MetadataImage) -> None:
    users = [entry((("user", f"user-{number}"),), (PRODUCE, 1.0)) for number in range(10_001)]
    change(image, *users[:10_000])
    assert len(image.client_quotas) == 10_000
    with pytest.raises(PolicyViolation):
        change_quotas(image_with_brokers([1]), users, ())


# -- filters ------------------------------------------------------------------------------------------

EXACT, DEFAULT, SPECIFIED = MatchType
ENTITIES: list[QuotaEntity] = [
    ALICE,
    (("user", "bob"),),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None), ("user", "alice")),
    (("ip", "10.0.0.1"),),
    (("ip", None),),
]


def matched(*components: tuple[str, MatchType, str | None], strict: bool = False) -> list[QuotaEntity]:
    wanted = QuotaFilter(
        [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
        strict=strict,
    )
    return [entity for entity in ENTITIES if wanted.matches(entity)]


def test_a_filter_matches_names_defaults_and_types() -> None:
    assert matched() == ENTITIES
    assert matched(strict=True) == []
    assert matched(("user", EXACT, "alice")) == [ENTITIES[0], ENTITIES[4]]
    assert matched(("user", EXACT, "alice"), strict=True) == [ENTITIES[0]]
    assert matched(("user", DEFAULT, None)) == [ENTITIES[2]]
    assert matched(("user", SPECIFIED, None)) == [*ENTITIES[:3], ENTITIES[4]]
    assert matched(("user", SPECIFIED, None), ("client-id", DEFAULT, None)) == [ENTITIES[4]]
    assert matched(("ip", SPECIFIED, None)) == ENTITIES[5:]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", 0, "alice"), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("planet", 0, "mars")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", 1, None), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        QuotaFilter(
            [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
            strict=False,
        )
    assert refused.value.code == code
