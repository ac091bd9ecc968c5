"""The lines that docs/commands.md shows with their output: a story on one broker, in this order.

A line that begins with `- ` is run and not shown. The lines of a command that this version does not have are
left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Play(NamedTuple):
    """Lines for a shell, shown with the command of this name.

    exit_code: that the last line ends with. needs: commands of earlier plays; without
    them it is left out.
    """

    command: str
    lines: tuple[str, ...]
    exit_code: int = 0
    needs: tuple[str, ...] = ()


TOPIC: Final = ("topic create",)
RECORDS: Final = ("topic create", "produce", "consume")


def play(command: str, *lines: str, exit_code: int = 0, needs: tuple[str, ...] = ()) -> Play:
    """A play of a command's lines."""
    return Play(command, lines, exit_code, needs)


PLAYS: Final = (
    play("profile add", "ottla profile add local --bootstrap 127.0.0.1:9092"),
    play(
        "profile add", "- ottla profile add production --bootstrap kafka-1:9093 --set security.protocol=SSL"
    ),
    play("profile set", "ottla profile set production --set client.id=nightly"),
    play("profile use", "ottla profile use local"),
    play("profile list", "ottla profile list", "ottla profile list --json"),
    play("profile show", "ottla profile show production"),
    play("profile remove", "ottla profile remove production --yes"),
    play("user hash", "echo secret | ottla user hash alice --role developer"),
    play("quorum status", "ottla quorum status", "ottla quorum status --json"),
    play("topic create", "ottla topic create orders --partitions 3 --config retention.ms=86400000"),
    play("topic create", "- ottla topic create payments order-items"),
    play("topic list", "ottla topic list", "ottla topic list --json", "ottla topic list -q"),
    play("produce", "seq 5 | ottla produce orders --key customer", needs=TOPIC),
    play(
        "produce",
        """echo '{"key": "k", "value": "v", "headers": {"a": "b"}}' | ottla produce payments --json""",
        needs=TOPIC,
    ),
    play("consume", "ottla consume orders --exit", "ottla consume payments --json --exit", needs=RECORDS),
    play("consume", "ottla consume orders -n 2 -f '%p %o %k=%v\\n'", needs=RECORDS),
    play("topic describe", "ottla topic describe orders", "ottla topic describe ordrs", exit_code=1),
    play("topic alter", "ottla topic alter orders --partitions 4"),
    play("topic purge", "ottla topic purge orders --yes"),
    play("config set", "ottla config set topic orders cleanup.policy=compact", needs=TOPIC),
    play("config get", "ottla config get topic orders retention.ms", needs=TOPIC),
    play(
        "config describe",
        "ottla config describe topic orders",
        "ottla config describe topic orders --key retention.ms --explain",
        needs=TOPIC,
    ),
    play("config unset", "ottla config unset topic orders retention.ms", needs=TOPIC),
    play("partition list", "ottla partition list"),
    play("partition elect", "ottla partition elect preferred --topic orders", needs=TOPIC),
    play("partition reassign", "ottla partition reassign --topic orders --brokers 1 --dry-run", needs=TOPIC),
    play(
        "group list",
        "- seq 9 | ottla produce order-items",
        "- ottla consume order-items -g packers -n 5 -q",
        needs=RECORDS,
    ),
    play("group list", "ottla group list", "ottla group list --json", needs=RECORDS),
    play("group describe", "ottla group describe packers --no-times", needs=RECORDS),
    play("lag", "ottla lag", "ottla lag --group packers --summary --json", needs=RECORDS),
    play("lag", "ottla lag --behind --warn-lag 3 --fail-on warn", exit_code=3, needs=RECORDS),
    play("group reset", "ottla group reset packers --to earliest --all-topics", needs=RECORDS),
    play("group delete-offsets", "ottla group delete-offsets packers --topic order-items", needs=RECORDS),
    play("group delete", "ottla group delete packers --yes", needs=RECORDS),
    play("txn list", "- echo 1 | ottla produce payments --transactional-id nightly", needs=RECORDS),
    play("txn list", "ottla txn list", needs=RECORDS),
    play("txn describe", "ottla txn describe nightly", needs=RECORDS),
    play(
        "txn describe-producers", "ottla txn describe-producers --topic payments --partition 0", needs=RECORDS
    ),
    play("txn find-hanging", "ottla txn find-hanging", needs=RECORDS),
    play("acl create", "ottla acl create --principal alice --topic orders --operation read"),
    play("acl create", "ottla acl create --principal app --topic order- --prefixed --producer"),
    play("acl list", "ottla acl list", "ottla acl list --topic order-items --pattern match --json"),
    play("acl delete", "ottla acl delete --principal app --yes"),
    play("user create", "echo secret | ottla user create alice --password-file -"),
    play("user alter", "echo other | ottla user alter alice --iterations 4096 --password-file -"),
    play("user describe", "ottla user describe alice"),
    play("user list", "ottla user list", "ottla user list --json"),
    play("user delete", "ottla user delete alice --mechanism SCRAM-SHA-256 --yes"),
    play("quota alter", "ottla quota alter --user alice producer_byte_rate=1048576 request_percentage=50"),
    play("quota alter", "ottla quota alter --default-user --client-id nightly consumer_byte_rate=2097152"),
    play("quota describe", "ottla quota describe", "ottla quota describe --user alice --json"),
    play("quota delete", "ottla quota delete --user alice producer_byte_rate"),
    play("doctor", "- ottla topic create endless --config retention.ms=-1", "ottla doctor", exit_code=4),
    play("doctor", "ottla doctor --only retention-unbounded,tiny-segments --json", exit_code=3),
    play("doctor", "- ottla topic delete endless --yes", "ottla doctor --probe --for 2"),
    play("log dump", "ottla log dump data/payments-0", needs=RECORDS),
    play("log verify", "ottla log verify data", needs=RECORDS),
    play("bench produce", "- ottla topic create perf", needs=TOPIC),
    play("bench produce", "ottla bench produce perf --num-records 200000 --record-size 100", needs=TOPIC),
    play("bench consume", "ottla bench consume perf --messages 200000", needs=TOPIC),
    play("bench latency", "ottla bench latency perf --messages 1000", needs=TOPIC),
    play("topic delete", "ottla topic delete order-items --yes"),
    play("certs create", "ottla certs create --node broker --client alice"),
    play("certs show", "ottla certs show certs/alice.pem", needs=("certs create",)),
)

#: Commands without output of their own to show: servers, applications, scripts, changes of several nodes, and
#: tokens, for which a client has to log in.
NOT_PLAYED: Final = frozenset(
    {
        *("broker", "up", "demo", "registry", "rest", "lag serve"),
        "mqtt",  # docs/mqtt.md shows it
        *("streams run", "streams describe", "streams reset"),
        # docs/connect.md shows those of Connect
        *("connect worker", "connect standalone", "connect apply", "connect list", "connect status"),
        *("connect config", "connect logs", "connect restart", "connect pause", "connect resume"),
        *("connect stop", "connect delete", "connect offsets", "connect plugins", "connect signal"),
        # docs/balance.md shows those of balance
        *("balance plan", "balance run", "balance add", "balance remove", "balance demote"),
        "balance replicas",
        *("balance fix-offline", "balance rightsize", "balance status", "balance stop", "balance serve"),
        *("mirror run", "mirror status"),  # docs/mirror.md shows them
        *("sql server", "sql terminal", "sql test"),  # docs/sql-server.md and docs/sql.md show them
        *("sql migrate new-project", "sql migrate initialize-metadata", "sql migrate create"),
        *("sql migrate apply", "sql migrate info", "sql migrate validate", "sql migrate destroy-metadata"),
        *("completion bash", "completion zsh", "completion fish"),
        *("quorum add", "quorum remove", "quorum unregister", "quorum upgrade"),
        *("group remove-member", "txn abort", "txn force-terminate"),
        *("token create", "token renew", "token expire", "token describe"),
        *("audit count", "audit report", "audit serve", "audit interceptor"),  # docs/audit.md shows them
        *("audit-log verify", "audit-log list"),
        # docs/links.md shows them
        *("link create", "link list", "link describe", "link promote", "link fail-over", "link delete"),
    }
)
