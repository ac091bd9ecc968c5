"""One Iceberg table: commits of rows together with the ledger, refused if another run has committed since.

Every run writes to a branch of its own, which begins at the snapshot at which the run has read the ledger.

    1. rows are written to the run's branch: a snapshot that no reader of the table sees, with the ledger as
       `ottla.ledger` in its summary
    2. one commit of the catalog moves the table's branch (main) forward to it, and the connector's tag with
       it. Iceberg refuses if main is not where the run's branch began.

A kill before 2 leaves a branch that the next run removes. After 2 the rows and the ledger are there, both.
Of two runs that write at once, 2 succeeds for the first alone; the other finds a ledger that it does not
know, and ends. Where somebody else has committed (a compaction, another writer), the ledger is as before,
and the batch is written anew.

The tag `ottla-CONNECTOR-…` always names the snapshot with the newest ledger. expire_snapshots keeps what a
tag names, so maintenance needs to know nothing of it; only the tag itself must not be dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.spark.java import class_of
from ottla.connect.spark.ledger import Fenced, Ledger, LedgerError, Owner, read_ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGER: Final = "ottla.ledger"
"""The summary property of a snapshot that has the ledger after it."""
ATTEMPTS: Final = 20
MAX_HISTORY: Final = 100_000
_STALE: Final = ("CommitFailedException", "ValidationException", "IllegalArgumentException")

_log = logging.getLogger(__name__)


class IcebergTable:
    """A table that exists. identifier: `catalog.namespace.table`, quoted for SQL."""

    def __init__(self, spark: SparkSession, identifier: str, owner: Owner, run: str, branch: str) -> None:
        self._spark = spark
        self.identifier = identifier
        self._owner = owner
        self._tag = f"ottla-{owner.slug}"
        self._prefix = f"ottla_run_{owner.slug.replace('-', '_')}_"
        self._stage = f"{self._prefix}{run.replace('-', '_')}"
        self._branch = branch
        self.java: Any = _load(spark, identifier)

    def with_session(self, spark: SparkSession) -> IcebergTable:
        """The same table, for the session of a batch."""
        self._spark = spark
        self.java = _load(spark, self.identifier)
        return self

    @property
    def staged_identifier(self) -> str:
        """The run's branch as Spark names it."""
        return f"{self.identifier}.`branch_{self._stage}`"

    def ledger(self) -> Ledger | None:
        """The newest ledger that the connector has committed, None if it has not yet. Raises LedgerError."""
        tagged = self.java.snapshot(self._tag)
        if tagged is not None:
            text = tagged.summary().get(LEDGER)
            found = None if text is None else read_ledger(str(text), self._owner)
            if found is None:
                raise LedgerError(
                    f"the tag {self._tag} of {self.identifier} names a snapshot without a ledger of the "
                    "connector"
                )
            return found
        return self._from_history()

    def _from_history(self) -> Ledger | None:
        """The newest ledger among the ancestors of the table's branch: its tag was dropped."""
        snapshot = self._head()
        for _ in range(MAX_HISTORY):
            if snapshot is None:
                return None
            text = snapshot.summary().get(LEDGER)
            found = None if text is None else read_ledger(str(text), self._owner)
            if found is not None:
                return found
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.java.snapshot(parent)
        return None

    def _head(self) -> Any:
        return self.java.snapshot(self._branch) if self._branch != "main" else self.java.currentSnapshot()

    def remove_old_stages(self) -> None:
        """Drop the branches of earlier runs, which were killed, or are refused by this."""
        old = [str(name) for name in self.java.refs() if str(name).startswith(self._prefix)]
        for name in old:
            try:
                self.java.manageSnapshots().removeBranch(name).commit()
            except Exception as problem:
                _log.info("the branch %s of %s stays for now: %s", name, self.identifier, problem)
            self.java.refresh()

    def claim(self, ledger: Ledger, expected: Ledger | None) -> None:
        """Commit a ledger without rows. Raises Fenced."""

        def write(identifier: str) -> None:
            append = self.java.newFastAppend().toBranch(self._stage)
            append.set(LEDGER, ledger.text(self._owner)).commit()

        self.commit(write, ledger, expected)

    def commit(self, write: Callable[[str], None], ledger: Ledger, expected: Ledger | None) -> None:
        """Have rows written to the run's branch, with LEDGER in the summary, and publish them.

        write: is given the branch's identifier. expected: the ledger before. Nothing is done where the table
        has this very ledger. Raises Fenced if it has another one.
        """
        for _ in range(ATTEMPTS):
            self.java.refresh()
            found = self.ledger()
            if found == ledger:
                return
            if found != expected:
                raise Fenced(
                    f"another run of {self._owner.connector} has written to {self.identifier} (its commit "
                    f"{None if found is None else found.sequence}, generation "
                    f"{None if found is None else found.generation}); this one ends"
                )
            if self._staged(write, ledger) and self._publish():
                return
        raise LedgerError(f"{self.identifier} is changed by others all the time: {ATTEMPTS} attempts failed")

    def _staged(self, write: Callable[[str], None], ledger: Ledger) -> bool:
        """Write to the branch, from the head of the table as it was when its ledger was read."""
        try:
            head = self._head()
            if head is None:
                self.java.newFastAppend().commit()
                self.java.refresh()
                head = self.java.currentSnapshot()
            manage = self.java.manageSnapshots()
            if self._branch != "main" and self.java.refs().get(self._branch) is None:
                manage = manage.createBranch(self._branch, head.snapshotId())
            if self.java.refs().get(self._stage) is None:
                manage.createBranch(self._stage, head.snapshotId()).commit()
            elif self.java.refs().get(self._stage).snapshotId() != head.snapshotId():
                manage.replaceBranch(self._stage, head.snapshotId()).commit()
        except Exception as problem:
            return _stale(problem)
        write(self.staged_identifier)
        self.java.refresh()
        staged = self.java.refs().get(self._stage)
        if staged is not None and staged.snapshotId() == head.snapshotId():  # there was nothing to change
            append = self.java.newFastAppend().toBranch(self._stage)
            append.set(LEDGER, ledger.text(self._owner)).commit()
        return True

    def _publish(self) -> bool:
        """Move the table's branch and the tag to the staged snapshot. False where the table has moved on."""
        for _ in range(ATTEMPTS):
            self.java.refresh()
            staged = self.java.refs().get(self._stage)
            if staged is None:
                raise Fenced(
                    f"the branch {self._stage} of {self.identifier} is gone: a later run has removed it"
                )
            snapshot = staged.snapshotId()
            head = self._head()
            if head is not None and self.java.snapshot(snapshot).parentId() != head.snapshotId():
                return False
            try:
                manage = self.java.manageSnapshots().fastForwardBranch(self._branch, self._stage)
                if self.java.refs().get(self._tag) is None:
                    manage = manage.createTag(self._tag, snapshot)
                else:
                    manage = manage.replaceTag(self._tag, snapshot)
                manage.commit()
                return True
            except Exception as problem:
                _stale(problem)
        return False

    def columns(self) -> Any:
        """The table's type in Spark."""
        return self._spark.table(self.identifier).schema


def _load(spark: SparkSession, identifier: str) -> Any:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, identifier)


def _stale(problem: Exception) -> bool:
    """False for a commit that was refused because the table has changed; others are raised again."""
    if class_of(problem) in _STALE:
        _log.debug("the table has changed meanwhile: %s", problem)
        return False
    raise problem
