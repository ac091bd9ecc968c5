"""Series of clients' metrics: deltas summed up, names made Prometheus', everything bounded."""

from __future__ import annotations

from ottla.core.telemetry.client_series import ClientSeries, ExposedSeries, Point, series_key
from ottla.core.telemetry.subscriptions import ClientProperties

NAME = "org.apache.kafka.producer.record.send.total"


def client(name: str = "i") -> ClientProperties:
    return ClientProperties(name, "app", "java", "4.4.0", "127.0.0.1", "1")


def counter(value: float, name: str = NAME, **attributes: str) -> Point:
    return Point(name, tuple(attributes.items()), value, True, True)


def take(to: ClientSeries, of: ClientProperties, points: list[Point], now_ms: int, life_ms: int) -> None:
    to.take(of, [(series_key(point), point) for point in points], now_ms, life_ms)


def exposed(series: ClientSeries) -> list[ExposedSeries]:
    return [each for each in series.exposed() if each is not None]


def of(series: ClientSeries, name: str) -> ExposedSeries:
    return next(each for each in exposed(series) if each.name == name)


def test_deltas_add_up_and_other_values_replace_each_other() -> None:
    series = ClientSeries(10)
    gauge = Point("org.apache.kafka.x", (), 5.0, False, False)
    take(series, client(), [counter(2), gauge], 0, 100)
    take(series, client(), [counter(3), gauge._replace(value=4.0)], 1, 100)
    sent = of(series, "org_apache_kafka_producer_record_send_total")
    assert sent.is_counter and [value for _, value in sent.samples] == [5.0]
    assert [value for _, value in of(series, "org_apache_kafka_x").samples] == [4.0]


def test_a_sample_has_a_value_for_each_label_of_its_name() -> None:
    series = ClientSeries(10)
    take(series, client(), [counter(1, **{"node.id": "1"}), counter(1, topic="t")], 0, 100)
    found = of(series, "org_apache_kafka_producer_record_send_total")
    assert found.labels[-2:] == ("node_id", "topic")
    assert sorted(values[-2:] for values, _ in found.samples) == [("", "t"), ("1", "")]


def test_a_client_can_not_pass_for_another_nor_for_the_process() -> None:
    series = ClientSeries(10)
    take(series, client("me"), [counter(1, "process.cpu.seconds.total", client_instance_id="you")], 0, 100)
    (found,) = exposed(series)
    assert found.name == "client_process_cpu_seconds_total"
    ((values, _),) = found.samples
    assert dict(zip(found.labels, values, strict=True))["client_instance_id"] == "me"


def test_the_series_of_a_client_and_of_all_are_bounded() -> None:
    series = ClientSeries(3, most=5)
    for name in "ab":
        take(series, client(name), [counter(1, topic=str(number)) for number in range(4)], 0, 100)
    assert series.dropped_points == 2
    assert len(series) == 3  # b's: a's had to go
    take(series, client("c"), [counter(1, "x" * 1_000)], 0, 100)
    assert series.dropped_points == 3


def test_the_series_of_a_client_that_pushes_no_more_go() -> None:
    series = ClientSeries(3)
    take(series, client(), [counter(1)], 0, 100)
    series.expire(99)
    assert len(series) == 1
    series.expire(100)
    assert len(series) == 0 and not exposed(series)
