"""Joins and regrouped tables against the whole history; records between topics in any order."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregate, Count
from ottla.streams.operators.foreign_key_join import Matches, Resolution, Subscriptions
from ottla.streams.operators.grouped_table import GroupedTableAggregate
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.operator import Event, Output
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.operators.table_changes import TableChanges
from ottla.streams.operators.table_table_join import TableTableJoin
from support.pipeline.keyed_operators import OperatorRun, applied

keys = st.sampled_from(["a", "b", None])
values = st.one_of(st.none(), st.integers(0, 9))
two_inputs = st.lists(
    st.lists(st.tuples(st.integers(0, 1), keys, values, st.integers(0, 40)), max_size=6), max_size=6
)
History = list[list[tuple[int, Any, Any, int]]]


def rows(outputs: list[Output]) -> dict[Any, list[tuple[Any, int]]]:
    found: dict[Any, list[tuple[Any, int]]] = {}
    for each in outputs:
        found.setdefault(each.key, []).append((each.value, each.timestamp_ms))
    return found


@given(two_inputs, st.booleans())
def test_a_record_meets_the_table_as_it_is_then(history: History, left_join: bool) -> None:
    host = OperatorRun(StreamTableJoin(left_join))
    table: dict[str, Any] = {}
    dropped = 0
    for batch in history:
        expected: dict[Any, list[tuple[Any, int]]] = {}
        for number, key, value, at_ms in batch:
            if number == 0:
                if key is None:
                    dropped += 1
                else:
                    table[key] = value
            elif value is None or (key is None and not left_join):
                dropped += 1
            elif table.get(key) is not None or left_join:
                pair = {"left": value, "right": table.get(key)}
                expected.setdefault(key, []).append((pair, at_ms))
        assert rows(host.batch([Event(*each) for each in batch])) == expected
    assert host.dropped == dropped


@given(two_inputs, st.integers(1, 20))
def test_with_grace_a_record_meets_the_table_of_its_time(history: History, grace_ms: int) -> None:
    """A record waits for its grace. Whatever the table is told until then about that time counts."""
    host = OperatorRun(StreamTableJoin(True, grace_ms))
    versions: dict[str, dict[int, Any]] = {"a": {}, "b": {}}
    waiting: list[tuple[str, Any, int]] = []
    watermark_ms = -1
    for batch in [*history, []]:
        if not batch:
            watermark_ms = 10**6
        expected: dict[Any, list[tuple[Any, int]]] = {}

        def join(key: Any, value: Any, at_ms: int, into: dict[Any, list[tuple[Any, int]]]) -> None:
            known = [since_ms for since_ms in versions.get(key, {}) if since_ms <= at_ms]
            right = versions[key][max(known)] if known else None
            into.setdefault(key, []).append(({"left": value, "right": right}, at_ms))

        due = sorted(
            (each for each in waiting if each[2] + grace_ms <= watermark_ms), key=lambda each: each[2]
        )
        waiting = [each for each in waiting if each not in due]
        for key, value, at_ms in due:
            join(key, value, at_ms, expected)
        behind = False
        for number, key, value, at_ms in batch:
            if number == 0 and key is not None:
                behind = behind or at_ms + grace_ms <= watermark_ms
                versions[key][at_ms] = value
            elif number == 1 and value is not None:
                if at_ms + grace_ms > watermark_ms:
                    waiting.append((key, value, at_ms))
                else:
                    join(key, value, at_ms, expected)
        outputs = rows(host.batch([Event(*each) for each in batch], watermark_ms))
        if behind or any(at_ms + grace_ms <= watermark_ms for number, _, _, at_ms in batch if number == 1):
            # A record later than its grace meets rows that are still known: only its coming out is certain.
            assert {k: len(v) for k, v in outputs.items()} == {k: len(v) for k, v in expected.items()}
            return
        assert outputs == expected
        watermark_ms = max([watermark_ms, *(at_ms for *_, at_ms in batch)])


@given(two_inputs, st.sampled_from(JoinKind))
def test_joined_tables_are_the_join_of_the_tables(history: History, kind: JoinKind) -> None:
    host = OperatorRun(TableTableJoin(kind))
    tables: list[dict[Any, Any]] = [{}, {}]
    result: dict[Any, Any] = {}
    for batch in history:
        for number, key, value, _ in batch:
            if key is not None:
                tables[number][key] = value
        for each in host.batch([Event(*each) for each in batch]):
            if each.value is None:
                del result[each.key]  # a tombstone for a row that was never there fails
            else:
                result[each.key] = each.value
        expected = {}
        for key in ("a", "b"):
            left, right = (table.get(key) for table in tables)
            wanted = {
                JoinKind.INNER: left is not None and right is not None,
                JoinKind.LEFT: left is not None,
                JoinKind.OUTER: left is not None or right is not None,
            }
            if wanted[kind]:
                expected[key] = {"left": left, "right": right}
        assert result == expected


left_rows = st.tuples(
    st.sampled_from(["l1", "l2"]),
    st.one_of(st.none(), st.tuples(st.sampled_from(["r1", "r2", None]), st.integers(0, 9))),
)
right_rows = st.tuples(st.sampled_from(["r1", "r2"]), values)


@given(
    st.lists(st.one_of(left_rows, right_rows), min_size=4, max_size=20),
    st.booleans(),
    st.randoms(use_true_random=True),
)
def test_a_foreign_key_join_ends_as_the_join_in_any_order_of_its_messages(
    changes: list[tuple[str, Any]], left_join: bool, random: Any
) -> None:
    """Each key's topic partition is a queue of its own; which one goes on next is chance."""
    subscriptions, matches = OperatorRun(Subscriptions()), OperatorRun(Matches())
    resolution = OperatorRun(Resolution(left_join))
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    queues: dict[tuple[str, Any], deque[Event]] = {}
    result: dict[str, Any] = {}

    def send(topic: str, event: Event) -> None:
        queues.setdefault((topic, event.key), deque()).append(event)

    def step() -> bool:
        full = [name for name, queue in queues.items() if queue]
        if not full:
            return False
        topic, key = random.choice(full)
        events = [queues[topic, key].popleft() for _ in range(random.randint(1, len(queues[topic, key])))]
        match topic:
            case "left":
                for each in subscriptions.batch(events):
                    send("right", Event(1, each.key, each.value, each.timestamp_ms))
            case "right":
                # Answers of different foreign keys are in different partitions: they may overtake each other.
                for each in matches.batch(events):
                    queue = queues.setdefault((f"answers of {key}", each.key), deque())
                    queue.append(Event(0, each.key, each.value, each.timestamp_ms))
            case _:
                for each in resolution.batch(events):
                    if each.value is None:
                        del result[each.key]
                    else:
                        result[each.key] = each.value
        return True

    for at_ms, (key, value) in enumerate(changes):
        if key.startswith("l"):
            left[key] = value
            row = None if value is None else {"foreign_key": value[0], "value": value[1]}
            send("left", Event(0, key, row, at_ms))
        else:
            right[key] = value
            send("right", Event(0, key, value, at_ms))
        for _ in range(random.randint(0, 3)):
            step()
    while step():
        pass
    expected = {}
    for key, row in left.items():
        if row is not None and (left_join or right.get(row[0]) is not None):
            expected[key] = {"left": row[1], "right": right.get(row[0])}
    assert result == expected


grouped_rows = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "group_key": st.sampled_from(["g", "h", None]),
                    "value": st.one_of(st.none(), st.integers(1, 9)),
                }
            ),
        ),
    ),
    max_size=20,
)


@given(grouped_rows, st.integers(1, 5))
def test_a_regrouped_table_is_the_aggregate_of_its_rows(
    changes: list[tuple[str, Any]], batch_size: int
) -> None:
    changing = OperatorRun(TableChanges())
    sums = OperatorRun(
        GroupedTableAggregate(
            Aggregate(lambda: 0, lambda a, b: a + b, subtractor=lambda a, b: a - b),
        )
    )
    counts = OperatorRun(GroupedTableAggregate(Count()))
    table: dict[str, Any] = {}
    sum_of: dict[str, int] = {}
    count_of: dict[str, int] = {}
    for at in range(0, len(changes), batch_size):
        batch = [Event(0, key, value, at) for key, value in changes[at : at + batch_size]]
        table |= {each.key: each.value for each in batch}
        events = [Event(0, each.key, each.value, each.timestamp_ms) for each in changing.batch(batch)]
        sum_of |= {each.key: each.value for each in sums.batch(events)}
        count_of |= {each.key: each.value for each in counts.batch(events)}
        groups: dict[str, list[int]] = {}
        for row in table.values():
            if row is not None and None not in row.values():
                groups.setdefault(row["group_key"], []).append(row["value"])
        assert {key: value for key, value in sum_of.items() if value} == {
            key: sum(group) for key, group in groups.items()
        }
        assert {key: value for key, value in count_of.items() if value} == {
            key: len(group) for key, group in groups.items()
        }


@given(two_inputs)
def test_an_aggregate_counts_records_with_key_and_value(history: History) -> None:
    host = OperatorRun(StreamAggregate(Count()))
    result: dict[str, Any] = {}
    seen: list[tuple[Any, Any]] = []
    for batch in history:
        seen += [(key, value) for _, key, value, _ in batch]
        result |= applied(host.batch([Event(0, *each[1:]) for each in batch]))
        assert result == {
            f'"{key}"': count
            for key in "ab"
            if (count := sum(1 for each in seen if each[0] == key and each[1] is not None))
        }
