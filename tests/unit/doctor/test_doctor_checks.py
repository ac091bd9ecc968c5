"""The doctor's checks over drawn snapshots: each finds its fault, and nothing in a sound cluster."""

from __future__ import annotations

import shlex
from dataclasses import replace

import click
import pytest

from ottla.cli.main import ottla as whole_command
from ottla.config.errors import UsageError
from ottla.doctor.checks.table import CHECKS, chosen
from ottla.doctor.examination import examine
from ottla.doctor.findings import Check, Finding, Severity, line, named
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import PART_NAMES, Gap, MetricSamples, Part, Snapshot, WhyNot
from support.doctor.drawn import sound, with_part
from support.doctor.faults import FAULTS, Fault

GAP = Gap(WhyNot.NOT_ALLOWED, "not allowed")
#: Limits that the small cluster meets where the default asks for a large one.
SMALL = {
    "leaders-skewed": Limits(leaders_more_than_mean=3),
    "too-many-replicas": Limits(replicas_a_broker=10),
}


def check(name: str) -> Check:
    return next(one for one in CHECKS if one.name == name)


def findings(snapshot: Snapshot, name: str, limits: Limits | None = None) -> list[Finding]:
    report = examine(snapshot, [check(name)], limits or SMALL.get(name, Limits()))
    assert report.not_made == ()
    return [finding for _, finding in report.findings()]


def test_nothing_is_found_in_a_sound_cluster_and_every_check_is_made() -> None:
    report = examine(sound(), CHECKS, Limits())
    assert [(one.name, finding.summary) for one, finding in report.findings()] == []
    assert report.not_made == () and len(report.made) == len(CHECKS) >= 30
    assert not report.has_blind_spots and report.worst() is None


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert {fault.check for fault in FAULTS} == {one.name for one in CHECKS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.check}-{fault.severity.value}")
def test_a_fault_is_found(fault: Fault) -> None:
    found = findings(fault.change(sound()), fault.check)
    matching = [
        one
        for one in found
        if one.severity is fault.severity
        and fault.says in one.summary
        and set(fault.subjects) <= set(one.subjects)
    ]
    assert matching, [(one.severity, one.summary, one.subjects) for one in found]
    (finding,) = matching
    assert finding.severity.rank >= check(fault.check).worst.rank
    assert finding.mend and finding.mend == finding.mend.strip()
    if fault.command:
        assert finding.command is not None and finding.command.startswith(fault.command), finding.command


def parsed(words: list[str]) -> click.Context:
    """The words of a command, read by it: it exists, and takes them. Raises click.UsageError."""
    command: click.Command = whole_command()
    context = click.Context(command, info_name="ottla")
    while isinstance(command, click.Group):
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command = found
        context = click.Context(command, info_name=name, parent=context)
    return command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.check}-{fault.severity.value}")
def test_the_command_of_a_finding_exists_and_takes_its_words(fault: Fault) -> None:
    for finding in findings(fault.change(sound()), fault.check):
        if finding.command is not None:
            program, *words = shlex.split(finding.command)
            assert program == "ottla"
            parsed(words)


@pytest.mark.parametrize("one", CHECKS, ids=lambda one: one.name)
def test_a_check_reads_only_the_parts_that_it_declares(one: Check) -> None:
    blind = sound()
    for name in PART_NAMES:
        if name not in one.reads:
            blind = replace(blind, **{name: Part(gap=GAP)})
    report = examine(blind, [one], Limits())
    assert report.not_made == () and report.worst() is None


@pytest.mark.parametrize("one", CHECKS, ids=lambda one: one.name)
def test_a_check_whose_part_is_missing_is_told_as_not_made(one: Check) -> None:
    for name in one.reads:
        report = examine(replace(sound(), **{name: Part(gap=GAP)}), [one], Limits())
        assert [(missing.check, missing.gap) for missing in report.not_made] == [(one, GAP)]
        assert report.made == () and report.has_blind_spots


def test_a_part_that_was_read_in_part_is_told_with_the_findings() -> None:
    partial = replace(sound(), topics=Part(sound().topics.value, left_out=("topic a: not allowed",)))
    report = examine(partial, CHECKS, Limits())
    told = {one.check.name for one in report.made if one.left_out}
    assert told == {one.name for one in CHECKS if "topics" in one.reads}
    assert report.has_blind_spots


def test_parts_that_a_cluster_does_not_have_hide_no_fault() -> None:
    missing = replace(sound(), tokens=Part(gap=Gap(WhyNot.NOT_OFFERED, "no tokens")))
    assert not examine(missing, CHECKS, Limits()).has_blind_spots


def test_findings_are_told_worst_first() -> None:
    snapshot = sound()
    for fault in FAULTS[:20]:
        snapshot = fault.change(snapshot)
    ranks = [finding.severity.rank for _, finding in examine(snapshot, CHECKS, Limits()).findings()]
    assert ranks == sorted(ranks) and ranks[0] == Severity.CRITICAL.rank


def test_long_lists_are_bounded() -> None:
    assert named(range(47)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 37 more"
    assert named(range(10)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"


def test_names_of_topics_are_quoted_for_a_shell() -> None:
    assert line("topic", "describe", "it's; rm -rf") == "ottla topic describe 'it'\"'\"'s; rm -rf'"


def test_checks_are_chosen_by_name() -> None:
    assert [one.name for one in chosen(["disk-full", "racks"], ["racks"])] == ["disk-full"]
    assert len(chosen([], ["racks"])) == len(CHECKS) - 1
    with pytest.raises(UsageError, match="did you mean disk-full"):
        chosen(["disk-ful"], [])


def test_limits_are_changed_by_name() -> None:
    assert Limits().with_values({"disk_hours": "5"}) == Limits(disk_hours=5)
    for values in ({"disk_hour": "5"}, {"disk_hours": "many"}, {"disk_hours": "nan"}, {"disk_hours": "-1"}):
        with pytest.raises(UsageError):
            Limits().with_values(values)


def test_metrics_pages_without_the_counter_tell_nothing_of_acks() -> None:
    report = examine(with_part("metrics", MetricSamples(()))(sound()), [check("weak-acks")], Limits())
    assert [one.gap.why for one in report.not_made] == [WhyNot.NOT_OFFERED]


def test_a_broker_on_its_own_machine_is_no_fault_for_clients_there() -> None:
    cluster = sound().cluster.get()
    local = {node: replace(one, host="127.0.0.1") for node, one in cluster.brokers.items()}
    snapshot = with_part("cluster", replace(cluster, brokers=local))(sound())
    snapshot = replace(snapshot, bootstrap=tuple(one.address for one in local.values()))
    assert findings(snapshot, "advertised-loopback") == []
