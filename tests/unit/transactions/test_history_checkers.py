"""Every checker of histories finds its violation, and none in a correct history."""

from __future__ import annotations

import pytest

from support.clients.histories import (
    History,
    LogEntry,
    Outcome,
    Poll,
    Transaction,
    aborted_reads,
    contradicting_markers,
    cycles,
    duplicates,
    lost_writes,
    mixed_transactions,
    stuck_readers,
    torn_transactions,
    values_that_changed,
    wrong_tables,
)

P, Q = ("t", 0), ("t", 1)


class Story:
    """A correct history with two transactions of v2, the first committed, the second aborted."""

    def __init__(self) -> None:
        self.history = History()
        self.first = self.transaction(epoch=0, outcome=Outcome.DONE)
        self.second = self.transaction(epoch=1, outcome=Outcome.FAILED)
        self.write(self.first, "a", P, 0, key="k")
        self.write(self.first, "b", Q, 0)
        self.write(self.second, "c", P, 2, key="k")
        self.log = [
            LogEntry(P, 0, 7, 0, True, None, "a"),
            LogEntry(P, 1, 7, 1, True, True, None),
            LogEntry(Q, 0, 7, 0, True, None, "b"),
            LogEntry(Q, 1, 7, 1, True, True, None),
            LogEntry(P, 2, 7, 1, True, None, "c"),
            LogEntry(P, 3, 7, 2, True, False, None),
        ]
        self.final = [Poll(P, True, 0, [(0, "a")]), Poll(Q, True, 0, [(0, "b")])]
        self.history.polls += self.final
        for offset in (0, 2, 4):
            self.history.saw_stable(P, offset)

    def transaction(self, *, epoch: int, outcome: Outcome, name: str = "x") -> Transaction:
        transaction = self.history.begin(name, 7, epoch, is_v2=True)
        transaction.outcome = outcome
        return transaction

    def write(
        self,
        transaction: Transaction,
        value: str,
        partition: tuple[str, int],
        offset: int,
        key: str | None = None,
    ) -> None:
        send = self.history.send(value, partition, transaction, key)
        self.history.acknowledged(send, offset)

    def violations(self) -> dict[str, list[str]]:
        """The violations that each checker finds; checkers without any are left out."""
        history, log, final = self.history, self.log, self.final
        said = {
            "changed": values_that_changed(history),
            "duplicates": duplicates(history),
            "lost": lost_writes(history, final),
            "torn": torn_transactions(history, final),
            "aborted": aborted_reads(history),
            "cycles": cycles(history),
            "mixed": mixed_transactions(history, log),
            "contradicting": contradicting_markers(history, log),
            "stuck": stuck_readers(history, {P: 4}),
            "tables": wrong_tables(history, final),
        }
        return {name: found for name, found in said.items() if found}


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_history_that_is_right_has_no_violations(story: Story) -> None:
    assert story.violations() == {}


def test_another_value_at_an_offset(story: Story) -> None:
    story.history.poll(P, [(0, "b")], committed_only=False)

    assert "changed" in story.violations()


@pytest.mark.parametrize("seen", ["by a consumer", "by its producer"])
def test_a_value_at_two_offsets(story: Story, seen: str) -> None:
    if seen == "by a consumer":
        story.history.poll(P, [(0, "a"), (9, "a")], committed_only=False)
    else:
        story.history.acknowledged(story.history.sends["a"], 9)

    assert list(story.violations()) == ["duplicates"]


def test_an_acknowledged_value_that_is_gone(story: Story) -> None:
    story.final = story.final[:1]

    assert {"lost", "torn"} <= set(story.violations())


def test_an_aborted_value_that_is_read(story: Story) -> None:
    story.history.poll(P, [(0, "a"), (2, "c")], committed_only=True)

    assert "aborted" in story.violations()
    story.history.polls[-1].committed_only = False
    assert story.violations() == {}


def test_a_refused_value_that_is_read(story: Story) -> None:
    refused = story.history.send("refused", P, None)
    refused.outcome = Outcome.FAILED
    story.history.poll(P, [(4, "refused")], committed_only=True)

    assert list(story.violations()) == ["aborted"]


def test_a_value_that_was_never_sent_is_a_violation(story: Story) -> None:
    story.history.poll(P, [(4, "from nowhere")], committed_only=True)

    assert list(story.violations()) == ["aborted"]


def test_transactions_that_read_each_other(story: Story) -> None:
    other = story.transaction(epoch=0, outcome=Outcome.DONE, name="y")
    third = story.transaction(epoch=0, outcome=Outcome.UNKNOWN, name="z")
    other.reads.append("a")
    assert story.violations() == {}
    story.history.send("d", Q, third)
    story.history.send("e", Q, other)
    third.reads.append("e")
    story.first.reads.append("d")

    (found,) = story.violations()["cycles"]

    assert all(name in found for name in ("x", "y", "z"))


def test_a_record_of_the_next_transaction_before_the_marker(story: Story) -> None:
    story.log[1], story.log[4] = story.log[4]._replace(offset=1), story.log[1]._replace(offset=2)

    assert "mixed" in story.violations()


def test_a_marker_that_says_otherwise_than_the_coordinator(story: Story) -> None:
    story.log[5] = story.log[5]._replace(committed=True)

    assert list(story.violations()) == ["mixed"]


def test_a_marker_of_an_old_epoch(story: Story) -> None:
    story.log[5] = story.log[5]._replace(epoch=1)

    assert list(story.violations()) == ["mixed"]


def test_a_record_of_an_old_epoch_after_the_marker(story: Story) -> None:
    story.log.append(LogEntry(P, 4, 7, 0, True, None, "c"))

    assert "mixed" in story.violations()


def test_a_refused_record_in_the_log(story: Story) -> None:
    story.history.sends["c"].outcome = Outcome.FAILED

    assert list(story.violations()) == ["mixed"]


def test_a_transaction_that_is_committed_here_and_aborted_there(story: Story) -> None:
    story.first.outcome = Outcome.UNKNOWN
    story.log[3] = story.log[3]._replace(committed=False)

    assert list(story.violations()) == ["contradicting"]


@pytest.mark.parametrize("offsets", [[3, 2, 4], [2, 3]], ids=["goes back", "never arrives"])
def test_a_last_stable_offset_that(story: Story, offsets: list[int]) -> None:
    story.history.stable_offsets[P] = offsets

    assert list(story.violations()) == ["stuck"]


def test_a_key_that_compaction_lost_or_gave_an_older_value(story: Story) -> None:
    third = story.transaction(epoch=2, outcome=Outcome.DONE)
    story.write(third, "d", P, 4, key="k")
    story.history.poll(P, [(0, "a"), (4, "d")], committed_only=True)

    assert "tables" in story.violations()
    story.final[0] = Poll(P, True, 0, [(4, "d")])
    assert "tables" not in story.violations()
