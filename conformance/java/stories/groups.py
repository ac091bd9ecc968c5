"""Groups of every kind, and the console programs."""

from __future__ import annotations

from conformance.java.stories import TOOLS, Story

TOPICS = "TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "GroupsCommand"
CONSUMER_GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
RESETTER = "StreamsResetter"
PRODUCER = "ConsoleProducer"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
SHARE_CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"
TEN = "".join(f"{number}\n" for number in range(10))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def console(run: Story) -> None:
    """ConsoleProducer and ConsoleConsumer"""
    plain = run.named("plain")
    run("a topic for it", TOPICS, "--create", "--topic", plain)
    run("produce", PRODUCER, "--topic", plain, stdin=TEN, lines=[])
    everything = ("--topic", plain, "--from-beginning", "--timeout-ms", "10000")
    run(
        "consume from the beginning",
        CONSUMER,
        *(*everything, "--max-messages", "10"),
        lines=[str(number) for number in range(10)],
        complains="Processed a total of 10 messages",
    )
    run(
        "consume by a pattern of topics",
        CONSUMER,
        *("--include", f"plain-{plain.split('-')[1]}", "--from-beginning", "--max-messages", "10"),
        *("--timeout-ms", "10000"),
        lines=[str(number) for number in range(10)],
    )
    run(
        "consume a partition from an offset",
        CONSUMER,
        *("--topic", plain, "--partition", "0", "--offset", "7", "--max-messages", "3"),
        lines=["7", "8", "9"],
    )
    run(
        "consume until nothing comes",
        CONSUMER,
        *("--topic", plain, "--partition", "0", "--offset", "earliest", "--timeout-ms", "2000"),
        says="9",
        complains="Processed a total of 10 messages",
    )
    for isolation in ("read_committed", "read_uncommitted"):
        run(
            f"consume with {isolation}",
            CONSUMER,
            *(*everything, "--max-messages", "10", "--isolation-level", isolation),
            lines=[str(number) for number in range(10)],
        )
    properties = (
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=|"),
        *("--reader-property", "parse.headers=true", "--reader-property", "headers.delimiter=|"),
        *("--reader-property", "null.marker=NULL"),
    )
    shown = [
        text
        for each in ("key=true", "headers=true", "partition=true", "offset=true")
        for text in ("--formatter-property", f"print.{each}")
    ]
    for codec in CODECS:
        topic = run.named(codec)
        run(f"a topic for {codec}", TOPICS, "--create", "--topic", topic)
        run(
            f"produce keys and headers with {codec}",
            PRODUCER,
            *("--topic", topic, "--compression-codec", codec, *properties),
            stdin="".join(f"h:{n}|key-{n}|value {n}\n" for n in range(20)) + "h:x|gone|NULL\n",
        )
        run(
            f"consume them after {codec}",
            CONSUMER,
            *("--topic", topic, "--from-beginning", "--max-messages", "21", *shown),
            *("--formatter-property", "null.literal=NULL"),
            lines=[
                *(f"Partition:0\tOffset:{n}\th:{n}\tkey-{n}\tvalue {n}" for n in range(20)),
                "Partition:0\tOffset:20\th:x\tgone\tNULL",
            ],
        )
    run(
        "produce with acks=0",
        PRODUCER,
        *("--topic", plain, "--request-required-acks", "0", "--command-property", "enable.idempotence=false"),
        stdin="more\n",
    )
    run("produce with acks=1", PRODUCER, "--topic", plain, "--request-required-acks", "1", stdin="more\n")
    run("produce one by one", PRODUCER, "--topic", plain, "--sync", stdin="more\nmore\n")
    run(
        "consume what came so",
        CONSUMER,
        *(
            "--topic",
            plain,
            "--partition",
            "0",
            "--offset",
            "10",
            "--max-messages",
            "4",
            "--timeout-ms",
            "10000",
        ),
        lines=["more"] * 4,
    )
    run(
        "produce a line without its key",
        PRODUCER,
        *("--topic", plain, "--reader-property", "parse.key=true", "--reader-property", "key.separator=|"),
        stdin="no key\n",
        code=1,
        complains="No key separator found on line number 1",
    )
    run(
        "produce a record that is too large",
        PRODUCER,
        *(
            "--topic",
            plain,
            "--command-property",
            "max.request.size=4000000",
            "--max-partition-memory-bytes",
            "100",
        ),
        stdin="x" * 2_000_000 + "\n",
        complains="RecordTooLargeException",
    )
    made = run.named("made")
    run("produce to a topic that is made so", PRODUCER, "--topic", made, stdin="first\n")
    run(
        "consume from it",
        CONSUMER,
        "--topic",
        made,
        "--from-beginning",
        "--max-messages",
        "1",
        lines=["first"],
    )
    run("consume without a topic", CONSUMER, code=1, complains="topic")


def consumer_groups(run: Story) -> None:
    """ConsumerGroupCommand and GroupsCommand"""
    topic, empty = run.named("topic"), run.named("empty")
    run("a topic for it", TOPICS, "--create", "--topic", topic, "--partitions", "2")
    run("an empty topic for it", TOPICS, "--create", "--topic", empty)
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run("records for it", PRODUCER, "--topic", topic, *keyed, stdin="".join(f"{n}:{n}\n" for n in range(20)))
    for protocol in ("classic", "consumer"):
        group = run.named(protocol)
        of_group = ("--group", group)
        run(
            f"a {protocol} group reads",
            CONSUMER,
            *(
                "--topic",
                topic,
                *of_group,
                "--from-beginning",
                "--max-messages",
                "20",
                "--timeout-ms",
                "20000",
            ),
            *("--command-property", f"group.protocol={protocol}"),
            complains="Processed a total of 20 messages",
        )
        run(
            f"the {protocol} group's offsets",
            CONSUMER_GROUPS,
            *("--describe", *of_group),
            matches=(
                rf"^{group} +{topic} +0 +(\d+) +\1 +0 +- +- +-",
                rf"^{group} +{topic} +1 +(\d+) +\1 +0 ",
            ),
            complains=f"Consumer group '{group}' has no active members.",
            soon=True,
        )
        run(
            f"the {protocol} group's offsets, in full",
            CONSUMER_GROUPS,
            *("--describe", *of_group, "--verbose"),
            matches=rf"^{group} +{topic} +0 +",
        )
        run(
            f"the {protocol} group's state",
            CONSUMER_GROUPS,
            *("--describe", *of_group, "--state"),
            matches=rf"^{group} .*Empty +0 *$",
        )
        run(
            f"the {protocol} group's members",
            CONSUMER_GROUPS,
            *("--describe", *of_group, "--members"),
            complains=f"Consumer group '{group}' has no active members.",
        )
        run(f"list with the {protocol} group", CONSUMER_GROUPS, "--list", matches=f"^{group}$")
        run(
            f"list the {protocol} group's type",
            CONSUMER_GROUPS,
            *("--list", "--type", protocol),
            matches=rf"^{group} +{protocol.capitalize()}",
        )
        run(
            f"list the {protocol} group's state",
            CONSUMER_GROUPS,
            *("--list", "--state", "Empty"),
            matches=rf"^{group} +Empty",
        )
        run(
            f"list groups and find the {protocol} one",
            GROUPS,
            "--list",
            matches=rf"^{group} +{protocol.capitalize()} +consumer",
        )
        reset = ("--reset-offsets", *of_group, "--topic", topic)
        run(
            f"try a reset of the {protocol} group",
            CONSUMER_GROUPS,
            *(*reset, "--to-earliest", "--dry-run"),
            matches=(rf"^{group} +{topic} +0 +0 *$", rf"^{group} +{topic} +1 +0 *$"),
        )
        for rule, words, offset in (
            ("to the earliest", ("--to-earliest",), "0"),
            ("to an offset", ("--to-offset", "3"), "3"),
            ("by a shift", ("--shift-by", "-1"), "2"),
            ("to where it is", ("--to-current",), "2"),
            ("to a date", ("--to-datetime", "2020-01-01T00:00:00.000"), "0"),
            ("by a duration", ("--by-duration", "P1D"), "0"),
            ("to the latest", ("--to-latest",), r"\d+"),
        ):
            run(
                f"reset the {protocol} group {rule}",
                CONSUMER_GROUPS,
                *(*reset, *words, "--execute"),
                matches=(rf"^{group} +{topic} +0 +{offset} *$", rf"^{group} +{topic} +1 +{offset} *$"),
            )
        exported = run(
            f"export the {protocol} group's offsets",
            CONSUMER_GROUPS,
            *("--reset-offsets", *of_group, "--all-topics", "--to-earliest", "--export"),
            matches=(f"^{topic},0,0$", f"^{topic},1,0$"),
        )
        run(
            f"reset the {protocol} group from a file",
            CONSUMER_GROUPS,
            *("--reset-offsets", *of_group, "--from-file", run.file("offsets.csv", exported.out.lstrip())),
            *("--execute",),
            matches=rf"^{group} +{topic} +1 +0 *$",
        )
        run(
            f"the {protocol} group lags now",
            CONSUMER_GROUPS,
            *("--describe", *of_group),
            matches=(rf"^{group} +{topic} +0 +0 +(\d+) +\1 ", rf"^{group} +{topic} +1 +0 +(\d+) +\1 "),
        )
        run(
            f"delete an offset of the {protocol} group",
            CONSUMER_GROUPS,
            *("--delete-offsets", *of_group, "--topic", f"{topic}:0"),
            matches=rf"^{topic} +0 +Successful",
        )
        run(
            f"delete an offset that the {protocol} group does not have",
            CONSUMER_GROUPS,
            *("--delete-offsets", *of_group, "--topic", f"{run.named('nowhere')}:0"),
            complains="does not host this topic-partition",
        )
        run(f"delete the {protocol} group", CONSUMER_GROUPS, "--delete", *of_group, says="was successful")
        run(f"list without the {protocol} group", CONSUMER_GROUPS, "--list", never=group)
        run(
            f"describe the {protocol} group that is gone",
            CONSUMER_GROUPS,
            *("--describe", *of_group),
            complains=("GroupIdNotFoundException", group),
        )
    run(
        "delete a group that is not there",
        CONSUMER_GROUPS,
        "--delete",
        "--group",
        run.named("nobody"),
        complains="GroupIdNotFoundException",
    )
    run(
        "offsets for a group that never was",
        CONSUMER_GROUPS,
        *("--reset-offsets", "--group", run.named("new"), "--topic", topic, "--to-earliest", "--execute"),
        matches=rf"^{run.named('new')} +{topic} +0 +0 *$",
    )
    run("list groups without a type", GROUPS, "--list", "--group-type", "consumer", says="GROUP")
    run(
        "list groups of a type that is none",
        GROUPS,
        "--list",
        "--group-type",
        "cats",
        code=1,
        complains="must be a valid group type",
    )
    run("list groups by protocol", GROUPS, "--list", "--protocol", "consumer", says="PROTOCOL")
    run("describe nobody", CONSUMER_GROUPS, "--describe", code=1, complains="group")
    run("nothing to do", CONSUMER_GROUPS, code=1, complains="Command must include exactly one action")


def share_groups(run: Story) -> None:
    """ConsoleShareConsumer and ShareGroupCommand"""
    topic, group = run.named("shared"), run.named("sharers")
    of_group = ("--group", group)
    run("a topic for it", TOPICS, "--create", "--topic", topic)
    run("records for it", PRODUCER, "--topic", topic, stdin=TEN)
    run(
        "the group begins at the earliest record",
        CONFIGS,
        *(
            "--alter",
            "--entity-type",
            "groups",
            "--entity-name",
            group,
            "--add-config",
            "share.auto.offset.reset=earliest",
        ),
    )
    run(
        "consume and accept",
        SHARE_CONSUMER,
        *("--topic", topic, *of_group, "--max-messages", "10", "--timeout-ms", "20000"),
        lines=[str(number) for number in range(10)],
        timeout_s=60,
    )
    run(
        "describe its offsets",
        SHARE_GROUPS,
        *("--describe", *of_group),
        matches=rf"^{group} +{topic} +0 +\d+ +0 *$",
        soon=True,
    )
    run(
        "describe its offsets in full",
        SHARE_GROUPS,
        *("--describe", *of_group, "--verbose"),
        matches=rf"^{group} +{topic} +0 +\d+ +\d+ +0 *$",
    )
    run(
        "describe its state",
        SHARE_GROUPS,
        "--describe",
        *of_group,
        "--state",
        matches=rf"^{group} .*Empty +0 *$",
        soon=True,
    )
    run(
        "describe its members",
        SHARE_GROUPS,
        "--describe",
        *of_group,
        "--members",
        complains="no active members",
    )
    run("list it", SHARE_GROUPS, "--list", matches=f"^{group}$")
    run("list it by its state", SHARE_GROUPS, "--list", "--state", "Empty", matches=rf"^{group} +Empty")
    run("list it among all groups", GROUPS, "--list", "--share", matches=rf"^{group} +Share +share")
    run("more records for it", PRODUCER, "--topic", topic, stdin="a\nb\nc\n")
    run(
        "consume and release",
        SHARE_CONSUMER,
        *("--topic", topic, *of_group, "--max-messages", "3", "--timeout-ms", "20000", "--release"),
        lines=["a", "b", "c"],
        timeout_s=60,
    )
    run(
        "consume again and reject",
        SHARE_CONSUMER,
        *("--topic", topic, *of_group, "--max-messages", "3", "--timeout-ms", "20000", "--reject"),
        *("--formatter-property", "print.delivery=true"),
        lines=["Delivery:2\ta", "Delivery:2\tb", "Delivery:2\tc"],
        timeout_s=60,
    )
    run(
        "nothing is left",
        SHARE_CONSUMER,
        *("--topic", topic, *of_group, "--max-messages", "1", "--timeout-ms", "3000"),
        lines=[],
        complains="Processed a total of 0 messages",
        timeout_s=60,
    )
    reset = ("--reset-offsets", *of_group, "--topic", topic)
    run(
        "try a reset",
        SHARE_GROUPS,
        *reset,
        "--to-earliest",
        "--dry-run",
        matches=rf"^{group} +{topic} +0 +0 *$",
        soon=True,
    )
    run(
        "reset it",
        SHARE_GROUPS,
        *reset,
        "--to-earliest",
        "--execute",
        matches=rf"^{group} +{topic} +0 +0 *$",
        soon=True,
    )
    run(
        "its lag after that",
        SHARE_GROUPS,
        "--describe",
        *of_group,
        matches=rf"^{group} +{topic} +0 +0 +13 *$",
        soon=True,
    )
    run(
        "reset it to a date",
        SHARE_GROUPS,
        *reset,
        "--to-datetime",
        "2020-01-01T00:00:00.000",
        "--execute",
        matches=rf"^{group} +{topic} +0 +0 *$",
    )
    run(
        "reset it to the latest",
        SHARE_GROUPS,
        *reset,
        "--to-latest",
        "--execute",
        matches=rf"^{group} +{topic} +0 +13 *$",
    )
    run(
        "delete its offsets",
        SHARE_GROUPS,
        "--delete-offsets",
        *of_group,
        "--topic",
        topic,
        matches=rf"^{topic} +Successful",
    )
    run("delete it", SHARE_GROUPS, "--delete", *of_group, says="was successful")
    run("list without it", SHARE_GROUPS, "--list", never=group)
    run(
        "describe it when it is gone",
        SHARE_GROUPS,
        "--describe",
        *of_group,
        complains=("GroupIdNotFoundException", group),
    )
    run("delete it when it is gone", SHARE_GROUPS, "--delete", *of_group, complains="is not a share group")
    run("nothing to do", SHARE_GROUPS, code=1, complains="exactly one action")


def streams_tools(run: Story) -> None:
    """StreamsResetter and StreamsGroupCommand"""
    topic, application = run.named("input"), run.named("application")
    run("a topic for it", TOPICS, "--create", "--topic", topic)
    run("its changelog", TOPICS, "--create", "--topic", f"{application}-store-changelog")
    run("records for it", PRODUCER, "--topic", topic, stdin=TEN)
    run(
        "a group with the application's name",
        CONSUMER,
        *("--topic", topic, "--group", application, "--from-beginning", "--max-messages", "10"),
    )
    reset = ("--application-id", application, "--input-topics", topic)
    run(
        "try a reset",
        RESETTER,
        *(*reset, "--dry-run"),
        says=(f"Topic: {topic} Partition: 0 Offset: 0", f"{application}-store-changelog"),
        soon=True,
    )
    run("reset", RESETTER, *reset, says=f"Topic: {topic} Partition: 0 Offset: 0")
    run("the changelog is gone", TOPICS, "--list", never=f"{application}-store-changelog", soon=True)
    run(
        "the offset is the first",
        CONSUMER_GROUPS,
        *("--describe", "--group", application),
        matches=rf"^{application} +{topic} +0 +0 +10 +10 ",
    )
    run("reset by a shift", RESETTER, *reset, "--shift-by", "4", says="Offset: 4")
    run("reset to an offset", RESETTER, *reset, "--to-offset", "2", says="Offset: 2")
    run("reset to the latest", RESETTER, *reset, "--to-latest", says="Offset: 10")
    run("reset to a date", RESETTER, *reset, "--to-datetime", "2020-01-01T00:00:00.000", says="Offset: 0")
    run(
        "reset with a topic that is not there",
        RESETTER,
        *("--application-id", application, "--input-topics", run.named("nowhere")),
        code=1,
        complains="not found",
    )
    run("list streams groups", STREAMS_GROUPS, "--list", never=application)
    run(
        "describe a streams group that is none",
        STREAMS_GROUPS,
        "--describe",
        "--group",
        application,
        code=1,
        complains=application,
    )
    run(
        "describe one that is not there",
        STREAMS_GROUPS,
        "--describe",
        "--group",
        run.named("nobody"),
        code=1,
        complains="nobody",
    )


STORIES = (console, consumer_groups, share_groups, streams_tools)
