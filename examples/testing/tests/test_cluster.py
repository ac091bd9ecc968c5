"""The service on a cluster that loses a broker: the fixture `kafka_cluster`."""

from __future__ import annotations

from order_service.shop import Order, Shop
from ottla.pytest import StartCluster


def test_orders_survive_the_death_of_a_broker(kafka_cluster: StartCluster) -> None:
    # given
    cluster = kafka_cluster(3)
    orders = cluster.topic("orders", config={"min.insync.replicas": 2})
    shop = Shop(cluster.bootstrap, orders, patience_seconds=60)
    shop.place(Order("1", "ann", 1))
    # when the broker that leads the topic is killed
    leader = cluster.leader(orders)
    leader.kill()
    # then orders are placed all the same
    shop.place(Order("2", "ann", 1))
    assert cluster.leader(orders) is not leader
    assert len(cluster.consume(orders, 2)) == 2
    # and the broker comes back
    cluster.heal()
    assert cluster.in_sync(orders) == [1, 2, 3]
