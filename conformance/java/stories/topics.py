"""Topics, their settings, their records and their replicas."""

from __future__ import annotations

import json

from conformance.java.stories import TOOLS, Story, StoryError

TOPICS = "TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
OFFSETS = "GetOffsetShell"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
ELECT = "LeaderElectionCommand"
LOG_DIRECTORIES = "LogDirsCommand"
RECORDS = "DeleteRecordsCommand"
PRODUCER = "ConsoleProducer"


def topic_command(run: Story) -> None:
    """TopicCommand"""
    plain, rich, placed = run.named("plain"), run.named("rich"), run.named("placed")
    run("create", TOPICS, "--create", "--topic", plain, lines=[f"Created topic {plain}."])
    run(
        "create with partitions and settings",
        TOPICS,
        *("--create", "--topic", rich, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=60000", "--config", "cleanup.policy=compact,delete"),
        says=f"Created topic {rich}.",
    )
    run(
        "create with replicas placed",
        TOPICS,
        *("--create", "--topic", placed, "--replica-assignment", "1,1"),
        says=f"Created topic {placed}.",
    )
    run(
        "create again",
        TOPICS,
        *("--create", "--topic", plain),
        code=1,
        complains=("already exists", "TopicExistsException"),
    )
    run("create again if it is not there", TOPICS, "--create", "--topic", plain, "--if-not-exists")
    run(
        "create with more replicas than brokers",
        TOPICS,
        *("--create", "--topic", run.named("wide"), "--replication-factor", "3"),
        code=1,
        complains="InvalidReplicationFactorException",
    )
    run(
        "create without partitions",
        TOPICS,
        *("--create", "--topic", run.named("none"), "--partitions", "0"),
        code=1,
        complains="must be greater than 0",
    )
    run(
        "create with a name that is no name",
        TOPICS,
        *("--create", "--topic", "what is this?"),
        code=1,
        complains="InvalidTopicException",
    )
    run(
        "create with a setting that does not exist",
        TOPICS,
        *("--create", "--topic", run.named("odd"), "--config", "no.such.setting=1"),
        code=1,
        complains="no.such.setting",
    )
    run(
        "create with a setting out of range",
        TOPICS,
        *("--create", "--topic", run.named("odd"), "--config", "segment.bytes=1"),
        code=1,
        complains="Invalid value 1 for configuration segment.bytes",
    )
    run(
        "create on a broker that is not there",
        TOPICS,
        *("--create", "--topic", run.named("lost"), "--replica-assignment", "7"),
        code=1,
        complains="InvalidReplicaAssignmentException",
    )
    run("list", TOPICS, "--list", matches=(f"^{plain}$", f"^{rich}$", f"^{placed}$"), soon=True)
    run("list one", TOPICS, "--list", "--topic", rich, lines=[rich], soon=True)
    run(
        "list by a pattern",
        TOPICS,
        *("--list", "--topic", f"(plain|rich)-{plain.split('-')[1]}"),
        lines=[plain, rich],
        soon=True,
    )
    described = run(
        "describe",
        TOPICS,
        *("--describe", "--topic", rich),
        matches=(
            rf"^Topic: {rich}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: \S+$",
            rf"^\tTopic: {rich}\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: $",
        ),
        says=("retention.ms=60000", "cleanup.policy=compact,delete", "min.insync.replicas=1"),
        soon=True,
    )
    if "TopicId: " in described.out:
        topic_id = described.out.split("TopicId: ")[1].split("\t")[0]
        run("describe by id", TOPICS, "--describe", "--topic-id", topic_id, says=f"Topic: {rich}\t")
    run(
        "describe by an id that is nobody's",
        TOPICS,
        *("--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAFw"),
        code=1,
        complains="AAAAAAAAAAAAAAAAAAAAFw",
    )
    run(
        "describe partition by partition",
        TOPICS,
        *("--describe", "--topic", rich, "--partition-size-limit-per-response", "1"),
        says=("Partition: 0\t", "Partition: 1\t", "Partition: 2\t"),
    )
    run(
        "describe those with settings of their own",
        TOPICS,
        *("--describe", "--topics-with-overrides"),
        says=rich,
    )
    for option in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--under-min-isr-partitions",
    ):
        run(f"describe with {option}", TOPICS, "--describe", option, lines=[])
    run(
        "describe with --at-min-isr-partitions",
        TOPICS,
        *("--describe", "--at-min-isr-partitions", "--topic", plain),
        matches=rf"^\tTopic: {plain}\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\t",
    )
    run("alter to more partitions", TOPICS, "--alter", "--topic", rich, "--partitions", "5")
    run("describe after that", TOPICS, "--describe", "--topic", rich, says="PartitionCount: 5", soon=True)
    run(
        "alter to fewer partitions",
        TOPICS,
        *("--alter", "--topic", rich, "--partitions", "2"),
        code=1,
        complains="InvalidPartitionsException",
    )
    run(
        "alter a topic that is not there",
        TOPICS,
        *("--alter", "--topic", run.named("nowhere"), "--partitions", "2"),
        code=1,
        complains="does not exist as expected",
    )
    run(
        "alter it if it is there",
        TOPICS,
        "--alter",
        "--topic",
        run.named("nowhere"),
        "--partitions",
        "2",
        "--if-exists",
    )
    run(
        "describe a topic that is not there",
        TOPICS,
        *("--describe", "--topic", run.named("nowhere")),
        code=1,
        complains="does not exist as expected",
    )
    run("delete", TOPICS, "--delete", "--topic", plain, lines=[])
    run("list without it", TOPICS, "--list", never=plain, soon=True)
    run("delete again", TOPICS, "--delete", "--topic", plain, code=1, complains="does not exist as expected")
    run("delete again if it is there", TOPICS, "--delete", "--topic", plain, "--if-exists")
    run("delete several by a pattern", TOPICS, "--delete", "--topic", f"(rich|placed)-{plain.split('-')[1]}")
    run("list without them", TOPICS, "--list", never=(rich, placed), soon=True)
    run("nothing to do", TOPICS, code=1, complains="exactly one action")
    run("two things to do", TOPICS, "--list", "--describe", code=1, complains="exactly one action")


def config_command(run: Story) -> None:
    """ConfigCommand"""
    topic, group = run.named("topic"), run.named("group")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    brokers = ("--entity-type", "brokers", "--entity-default")
    run("a topic for it", TOPICS, "--create", "--topic", topic, "--config", "retention.ms=1000")
    run(
        "describe a topic",
        CONFIGS,
        *("--describe", *entity),
        lines=[
            f"Dynamic configs for topic {topic} are:",
            "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
        ],
        soon=True,
    )
    run(
        "alter a topic",
        CONFIGS,
        *("--alter", *entity, "--add-config", "cleanup.policy=[compact,delete],max.message.bytes=2000"),
        lines=[f"Completed updating config for topic {topic}."],
    )
    run(
        "describe it after that",
        CONFIGS,
        *("--describe", *entity),
        says=(
            "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy="
            "compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "  max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000, "
            "DEFAULT_CONFIG:message.max.bytes=1048588}",
        ),
        soon=True,
    )
    run(
        "describe all of a topic",
        CONFIGS,
        *("--describe", "--all", *entity),
        says=(
            f"All configs for topic {topic} are:",
            "  compression.type=producer sensitive=false synonyms={DEFAULT_CONFIG:compression.type=producer}",
            "  segment.ms=604800000 sensitive=false synonyms={}",
        ),
    )
    run("delete a setting", CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    run(
        "describe without it",
        CONFIGS,
        "--describe",
        *entity,
        says="cleanup.policy",
        never="retention.ms",
        soon=True,
    )
    run("delete a setting that is not set", CONFIGS, "--alter", *entity, "--delete-config", "flush.ms")
    for wrong in ("retention.ms=never", "cleanup.policy=burn", "min.insync.replicas=0", "no.such=1"):
        run(
            f"refuse {wrong}",
            CONFIGS,
            *("--alter", *entity, "--add-config", wrong),
            code=1,
            complains="InvalidConfigurationException",
        )
    run(
        "settings from a file",
        CONFIGS,
        *("--alter", *entity, "--add-config-file", run.file("topic.properties", "segment.ms=70000\n")),
    )
    run("describe those", CONFIGS, "--describe", *entity, says="  segment.ms=70000 ", soon=True)
    run(
        "describe a topic that is not there",
        CONFIGS,
        *("--describe", "--entity-type", "topics", "--entity-name", run.named("nowhere")),
        complains="doesn't exist",
    )
    run("describe every topic", CONFIGS, "--describe", "--entity-type", "topics", says=topic)
    run(
        "alter a broker",
        CONFIGS,
        *("--alter", *broker, "--add-config", "log.cleaner.backoff.ms=15001"),
        lines=["Completed updating config for broker 1."],
    )
    run(
        "describe a broker",
        CONFIGS,
        *("--describe", *broker),
        says=(
            "Dynamic configs for broker 1 are:",
            "  log.cleaner.backoff.ms=15001 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
            "log.cleaner.backoff.ms=15001, DEFAULT_CONFIG:log.cleaner.backoff.ms=15000}",
        ),
        soon=True,
    )
    run(
        "describe all of a broker",
        CONFIGS,
        "--describe",
        "--all",
        *broker,
        says=("node.id=1 ", "num.io.threads="),
    )
    run("set a broker back", CONFIGS, "--alter", *broker, "--delete-config", "log.cleaner.backoff.ms")
    run("alter every broker", CONFIGS, "--alter", *brokers, "--add-config", "log.cleaner.threads=2")
    run(
        "describe what is for every broker",
        CONFIGS,
        *("--describe", *brokers),
        says="  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:",
        soon=True,
    )
    run("set every broker back", CONFIGS, "--alter", *brokers, "--delete-config", "log.cleaner.threads")
    run(
        "refuse a broker's setting that is read-only",
        CONFIGS,
        *("--alter", *broker, "--add-config", "node.id=9"),
        code=1,
        complains="InvalidRequestException",
    )
    of_group = ("--entity-type", "groups", "--entity-name", group)
    run("alter a group", CONFIGS, "--alter", *of_group, "--add-config", "consumer.session.timeout.ms=50000")
    run(
        "describe a group",
        CONFIGS,
        *("--describe", *of_group),
        says=(f"Dynamic configs for group {group} are:", "  consumer.session.timeout.ms=50000 "),
        soon=True,
    )
    run(
        "refuse a group's setting out of range",
        CONFIGS,
        *("--alter", *of_group, "--add-config", "consumer.session.timeout.ms=1"),
        code=1,
        complains="InvalidConfigurationException",
    )
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    run("describe the loggers of a broker", CONFIGS, "--describe", *loggers, complains="broker-logger 1")
    run("nothing to do", CONFIGS, "--entity-type", "topics", code=1, complains="exactly one action")
    run(
        "an entity that does not exist",
        CONFIGS,
        "--describe",
        "--entity-type",
        "cats",
        code=1,
        complains="cats",
    )


def records_and_offsets(run: Story) -> None:
    """GetOffsetShell and DeleteRecordsCommand"""
    topic, other = run.named("numbers"), run.named("other")
    run("a topic for it", TOPICS, "--create", "--topic", topic, "--partitions", "2")
    run("another", TOPICS, "--create", "--topic", other)
    run(
        "records for it",
        PRODUCER,
        *("--topic", other),
        stdin="".join(f"{number}\n" for number in range(10)),
    )
    run("end offsets", OFFSETS, "--topic", other, lines=[f"{other}:0:10"], soon=True)
    run("end offsets of an empty topic", OFFSETS, "--topic", topic, lines=[f"{topic}:0:0", f"{topic}:1:0"])
    for spec, offset in (
        ("latest", "10"),
        ("earliest", "0"),
        ("-1", "10"),
        ("-2", "0"),
        ("max-timestamp", r"\d"),
    ):
        run(f"offsets by {spec}", OFFSETS, "--topic", other, "--time", spec, matches=f"^{other}:0:{offset}$")
    run("offsets by -4", OFFSETS, "--topic", other, "--time", "-4", lines=[f"{other}:0:0"])
    run("offsets by a time long ago", OFFSETS, "--topic", other, "--time", "1000", lines=[f"{other}:0:0"])
    run("offsets by a time to come", OFFSETS, "--topic", other, "--time", "9000000000000", lines=[])
    run("offsets of one partition", OFFSETS, "--topic", topic, "--partitions", "1", lines=[f"{topic}:1:0"])
    run(
        "offsets of partitions of topics",
        OFFSETS,
        *("--topic-partitions", f"{topic}:1,{other}:0"),
        lines=[f"{topic}:1:0", f"{other}:0:10"],
    )
    run(
        "offsets of a topic that is not there",
        OFFSETS,
        *("--topic", run.named("nowhere")),
        code=1,
        complains="Could not match any topic-partitions",
    )
    run(
        "offsets by a word that is no time",
        OFFSETS,
        "--topic",
        topic,
        "--time",
        "noon",
        code=1,
        complains="noon",
    )

    def deletion(*of: tuple[str, int, int]) -> str:
        wanted = [{"topic": name, "partition": index, "offset": offset} for name, index, offset in of]
        return run.file("delete.json", json.dumps({"version": 1, "partitions": wanted}))

    run(
        "delete records",
        RECORDS,
        *("--offset-json-file", deletion((other, 0, 4))),
        says=f"partition: {other}-0\tlow_watermark: 4",
    )
    run("earliest after that", OFFSETS, "--topic", other, "--time", "earliest", lines=[f"{other}:0:4"])
    run(
        "delete all records",
        RECORDS,
        *("--offset-json-file", deletion((other, 0, -1))),
        says=f"partition: {other}-0\tlow_watermark: 10",
    )
    run(
        "delete records beyond the end",
        RECORDS,
        *("--offset-json-file", deletion((other, 0, 11))),
        complains="OffsetOutOfRangeException",
    )
    run(
        "delete records of the same partition twice",
        RECORDS,
        *("--offset-json-file", deletion((other, 0, 1), (other, 0, 2))),
        code=1,
        complains="duplicate topic partitions",
    )
    run(
        "delete records by a file that is no JSON",
        RECORDS,
        *("--offset-json-file", run.file("broken.json", "{")),
        code=1,
    )


def replicas(run: Story) -> None:
    """LogDirsCommand, LeaderElectionCommand and ReassignPartitionsCommand"""
    topic = run.named("placed")
    run("a topic for it", TOPICS, "--create", "--topic", topic, "--partitions", "2")
    run("records for it", PRODUCER, "--topic", topic, stdin="some\nrecords\n")
    described = run(
        "describe the log directories",
        LOG_DIRECTORIES,
        *("--describe", "--topic-list", topic, "--broker-list", "1"),
        says=("Querying brokers for log directories information", '"error":null'),
        soon=True,
    )
    run.note("the partitions of a log directory", _log_directory_complaint(described.out, topic))
    run(
        "describe the log directories of a broker that is not there",
        LOG_DIRECTORIES,
        *("--describe", "--broker-list", "9"),
        code=1,
        complains="9",
    )
    elect = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    run(
        "elect a preferred leader that leads",
        ELECT,
        *elect,
        says=f"Valid replica already elected for partitions {topic}-0",
    )
    run(
        "elect uncleanly where it is not needed",
        ELECT,
        *("--election-type", "unclean", "--topic", topic, "--partition", "0"),
        says=f"Valid replica already elected for partitions {topic}-0",
    )
    run("elect preferred leaders everywhere", ELECT, "--election-type", "preferred", "--all-topic-partitions")
    run(
        "elect by a file",
        ELECT,
        *("--election-type", "preferred", "--path-to-json-file"),
        run.file("elect.json", json.dumps({"partitions": [{"topic": topic, "partition": 1}]})),
        says=f"Valid replica already elected for partitions {topic}-1",
    )
    run(
        "elect a leader of a partition that is not there",
        ELECT,
        *("--election-type", "preferred", "--topic", topic, "--partition", "9"),
        code=1,
        complains="UnknownTopicOrPartitionException",
    )
    moves = run.file("move.json", json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    run(
        "generate a plan",
        REASSIGN,
        *("--generate", "--topics-to-move-json-file", moves, "--broker-list", "1"),
        says=("Current partition replica assignment", "Proposed partition reassignment configuration", topic),
    )

    def plan(*brokers: int, name: str = topic) -> str:
        partition = {
            "topic": name,
            "partition": 0,
            "replicas": list(brokers),
            "log_dirs": ["any"] * len(brokers),
        }
        return run.file("plan.json", json.dumps({"version": 1, "partitions": [partition]}))

    run(
        "execute a plan",
        REASSIGN,
        *("--execute", "--reassignment-json-file", plan(1)),
        says=f"Successfully started partition reassignment for {topic}-0",
    )
    run(
        "verify it",
        REASSIGN,
        *("--verify", "--reassignment-json-file", plan(1)),
        says=f"Reassignment of partition {topic}-0 is completed.",
        soon=True,
    )
    run("list what moves", REASSIGN, "--list", says="No partition reassignments found.")
    run(
        "execute a plan with a broker that is not there",
        REASSIGN,
        *("--execute", "--reassignment-json-file", plan(1, 9)),
        code=1,
        complains="9",
    )
    run(
        "execute a plan for a topic that is not there",
        REASSIGN,
        *("--execute", "--reassignment-json-file", plan(1, name=run.named("nowhere"))),
        code=1,
        complains="UnknownTopicOrPartitionException",
    )
    run(
        "execute a plan with a throttle",
        REASSIGN,
        *("--execute", "--reassignment-json-file", plan(1), "--throttle", "1000000"),
        says="The inter-broker throttle limit was set to 1000000 B/s",
    )
    run(
        "verify and take the throttle back",
        REASSIGN,
        *("--verify", "--reassignment-json-file", plan(1)),
        says=(
            "Clearing broker-level throttles on broker 1",
            f"Clearing topic-level throttles on topic {topic}",
        ),
        soon=True,
    )
    run(
        "cancel where nothing moves",
        REASSIGN,
        *("--cancel", "--reassignment-json-file", plan(1)),
        says="None of the specified partition moves are active.",
    )
    run(
        "refuse another replication factor",
        REASSIGN,
        *("--execute", "--reassignment-json-file", plan(1, 2), "--disallow-replication-factor-change"),
        code=1,
    )


def _log_directory_complaint(out: str, topic: str) -> str:
    try:
        (broker,) = json.loads(out.splitlines()[-1])["brokers"]
        (directory,) = broker["logDirs"]
        found = {each["partition"]: each for each in directory["partitions"]}
    except (ValueError, LookupError) as problem:
        raise StoryError(f"no description of the log directories: {problem}") from problem
    if found.keys() != {f"{topic}-0", f"{topic}-1"}:
        return f"expected two partitions, got {sorted(found)}"
    if sum(each["size"] for each in found.values()) <= 0:
        return f"no sizes: {found}"
    if any(each["offsetLag"] or each["isFuture"] for each in found.values()):
        return f"lags or futures: {found}"
    return ""


STORIES = (topic_command, config_command, records_and_offsets, replicas)
