"""The host around an operator: the order of events, exact values, the identity of state."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from ottla.streams.host.keyed_host import bucket_ids, describe_state
from ottla.streams.host.keyed_processor import _by_key
from ottla.streams.host.keyed_values import decoder, dumps, encoder, loads
from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Count

# The first example imports pandas and the strategies: no measure of the code, least of all on a busy machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

events = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 20)), max_size=20
)


@unhurried
@given(events, st.randoms(use_true_random=False))
def test_partitions_are_merged_by_the_earliest_of_their_next_records(given_events: Any, random: Any) -> None:
    """As Kafka Streams does it: partitions are queues, the head with the smallest time goes first."""
    rows = [
        {"key": key, "hash": 7, "input": number, "source": partition, "offset": at, "timestamp": time}
        for at, (key, number, partition, time) in enumerate(given_events)
    ]
    expected: dict[str, list[int]] = {}
    for key in "ab":
        queues: dict[tuple[int, int], list[Any]] = {}
        for row in rows:
            if row["key"] == key:
                queues.setdefault((row["input"], row["source"]), []).append(row)
        while queues:
            heads = {name: queue[0]["timestamp"] for name, queue in queues.items()}
            first = min(heads, key=lambda name: (heads[name], name))
            expected.setdefault(key, []).append(queues[first].pop(0)["offset"])
            if not queues[first]:
                del queues[first]
    if not rows:
        return
    random.shuffle(rows)
    frame = pd.DataFrame(rows).assign(now=1, record="")
    frame["record"] = frame["offset"].astype(str)
    cut = random.randint(0, len(rows))
    groups, _ = _by_key([part for part in (frame[:cut], frame[cut:]) if len(part)])
    found = {key: [int(event[2]) for event in group[1]] for key, group in groups.items()}
    assert found == expected


TIMES = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
TYPES: list[tuple[T.DataType, st.SearchStrategy[Any]]] = [
    (T.LongType(), st.integers(-(2**63), 2**63 - 1)),
    (T.StringType(), st.text()),
    (T.DoubleType(), st.floats(allow_nan=False)),
    (T.BinaryType(), st.binary()),
    (T.BooleanType(), st.booleans()),
    (T.DateType(), st.dates()),
    (T.TimestampType(), st.datetimes(*TIMES)),
    (T.DecimalType(20, 5), st.decimals(-(10**14), 10**14, places=5, allow_nan=False)),
]


@unhurried
@given(st.data())
def test_values_of_any_type_come_back_as_they_were(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    struct = T.StructType([T.StructField(f"f{at}", each) for at, (each, _) in enumerate(fields)])
    values = st.one_of(
        st.none(), st.fixed_dictionaries({f"f{at}": st.none() | each for at, (_, each) in enumerate(fields)})
    )
    nested = T.ArrayType(T.MapType(fields[0][0], struct))
    value = data.draw(
        st.lists(st.dictionaries(fields[0][1], values, max_size=3), max_size=3).filter(
            lambda lists: all(None not in each for each in lists)
        )
    )
    sent = loads(dumps(encoder(nested, "value")(value)))
    decode = decoder(nested)
    assert decode is not None
    assert decode(sent) == value


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (T.LongType(), 2**63),
        (T.LongType(), 1.0),
        (T.LongType(), True),
        (T.ByteType(), 128),
        (T.StringType(), b"bytes"),
        (T.BooleanType(), 1),
        (T.DoubleType(), "1"),
        (T.DecimalType(4, 2), Decimal("1.234")),
        (T.DecimalType(4, 2), Decimal(100)),
        (T.DecimalType(4, 2), Decimal("NaN")),
        (T.DateType(), datetime.datetime(2024, 1, 1)),  # noqa: DTZ001
        (T.TimestampType(), "2024-01-01"),
        (T.ArrayType(T.LongType()), "ab"),
        (T.StructType([T.StructField("a", T.LongType())]), [1]),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_refused(data_type: T.DataType, value: Any) -> None:
    with pytest.raises(TypeError, match="which is no "):
        encoder(data_type, "the value")(value)


def test_a_struct_with_unknown_fields_is_refused() -> None:
    struct = T.StructType([T.StructField("a", T.LongType())])
    with pytest.raises(ValueError, match="the value has fields that its type does not: b"):
        encoder(struct, "the value")({"a": 1, "b": 2})
    with pytest.raises(TypeError, match=r"the value\.a is 'x', which is no bigint"):
        encoder(struct, "the value")({"a": "x"})


def test_missing_fields_are_null() -> None:
    struct = T.StructType([T.StructField("a", T.LongType()), T.StructField("b", T.StringType())])
    assert encoder(struct, "the value")({"a": 1}) == {"a": 1, "b": None}


def test_times_of_windows_are_milliseconds() -> None:
    assert encoder(T.TimestampType(), "start")(1500) == 1_500_000
    zoned = datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert encoder(T.TimestampType(), "start")(zoned) == 0


def test_an_operators_state_is_described_by_all_that_it_hangs_on() -> None:
    described = describe_state(StreamAggregate(Count()), T.StringType(), [T.LongType()], 4)
    assert described == {
        "operator": "StreamAggregate",
        "stores": "aggregate",
        "timers": "",
        "input key": "string",
        "input values": "bigint",
        "buckets": "4",
        "version": "1",
    }


def test_each_bucket_has_its_own_number() -> None:
    assert len(set(bucket_ids(200, 200))) == 200
    assert bucket_ids(4, 2) == bucket_ids(6, 2)[:4]
