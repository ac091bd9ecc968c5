"""Whether the chains of an audit log are whole: each record looked at once, in the order of the log.

A record is broken if it is not sound in itself, or does not continue its node's chain. A chain may begin at
its first record, or behind records that have expired (its first one names a predecessor below the log's
start). Gaps are no breaks: a run of a node that ended without saying so, after which events may be missing,
and events that the node told as lost.

A killed node may have sent records that reach the log behind the place up to which its next run has read.
That run's first record then continues an earlier record; its second one names the late ones, so that they
can't be removed either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.security.audit_chain import (
    CHAIN_ENDED,
    CHAIN_RESUMED,
    CHAIN_STARTED,
    EVENTS_LOST,
    FIRST_PREVIOUS_HASH,
    ChainEnd,
    NotAuditRecord,
    SealedRecord,
    read_record,
)

MOST_FINDINGS: Final = 1_000
"""More are counted, not kept."""
#: Records of a chain that are remembered, for the first record of a run to continue one of them.
_TAIL: Final = 1_000


class Finding(NamedTuple):
    """A broken record or a gap. What is not known is None."""

    offset: int | None
    node: int | None
    sequence: int | None
    text: str


@dataclass(slots=True)
class Findings:
    """The first findings, and the number of all."""

    first: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, finding: Finding) -> None:
        """One more."""
        self.count += 1
        if len(self.first) < MOST_FINDINGS:
            self.first.append(finding)


@dataclass(slots=True)
class Chain:
    """A node's chain, as far as it was read."""

    node: int
    first_sequence: int
    begins: bool
    """Whether its first record is here; False where it has expired."""
    end: ChainEnd
    run: str
    ended: bool = False
    """Whether the last record says that its run has ended."""
    records: int = 0
    events: int = 0
    """The events that the records stand for."""
    runs: int = 1
    signed: int = 0
    """Records with a signature."""
    late: list[ChainEnd] = field(default_factory=list)
    """The ends of records that a run's first record has not continued, and that no record has named."""
    tail: deque[ChainEnd] = field(default_factory=lambda: deque(maxlen=_TAIL))


class AuditVerifier:
    """Takes the records of one partition in their order; `finish` ends it."""

    def __init__(
        self,
        keys: Sequence[bytes] = (),
        *,
        log_start_offset: int | None = None,
        known_ends: Mapping[int, ChainEnd] | None = None,
    ) -> None:
        """keys: with one of them every record has to be signed, from a chain's first signed one on.

        known_ends: the chains' ends as a former verification found them.
        """
        self._keys = keys
        self.log_start_offset = log_start_offset
        """Records below it have expired; None where nothing is known about offsets."""
        self._known_ends = dict(known_ends or {})
        self.chains: dict[int, Chain] = {}
        self.broken = Findings()
        self.gaps = Findings()

    def add(self, key: bytes | None, value: bytes | None, offset: int | None) -> SealedRecord | None:
        """Look at the next record; returns it if it is sound in itself."""
        try:
            record = read_record(value or b"")
        except NotAuditRecord as problem:
            self.broken.add(Finding(offset, _node_of(key), None, str(problem)))
            return None
        if key is not None and key != str(record.node).encode():
            self._break(record, offset, f"its key is {key[:32]!r}, the chain's node is {record.node}")
        self._check_known_end(record, offset)
        chain = self.chains.get(record.node)
        if chain is None:
            chain = self._begin(record, offset)
        else:
            self._follow(chain, record, offset)
        self._check_signature(chain, record, offset)
        self._take(chain, record, offset)
        return record

    def finish(self) -> None:
        """No more records come."""
        for chain in self.chains.values():
            if chain.late:
                text = "it does not continue the record before it, and its run has not said why yet"
                self.gaps.add(Finding(chain.end.offset, chain.node, chain.end.sequence, text))
            if self._keys and not chain.signed:
                text = "no record of the chain is signed, although a key is given"
                self.broken.add(Finding(chain.end.offset, chain.node, chain.end.sequence, text))
        for node, known in self._known_ends.items():
            found = self.chains.get(node)
            if found is not None and not found.begins and known.sequence < found.first_sequence:
                continue  # it has expired since
            text = f"the record with hash {known.hash}, which was the chain's last one before, is missing"
            self.broken.add(Finding(known.offset, node, known.sequence, text))

    # -- one record -------------------------------------------------------------------------------------

    def _begin(self, record: SealedRecord, offset: int | None) -> Chain:
        begins = record.sequence == 0
        if begins and (record.event, record.previous_hash) != (CHAIN_STARTED, FIRST_PREVIOUS_HASH):
            self._break(record, offset, f"a chain begins with {CHAIN_STARTED}, not with {record.event}")
        if not begins:
            self._check_cut_beginning(record, offset)
        return self.chains.setdefault(
            record.node,
            Chain(record.node, record.sequence, begins, ChainEnd(record.sequence, record.hash), record.run),
        )

    def _check_cut_beginning(self, record: SealedRecord, offset: int | None) -> None:
        """The records before the first one must have expired."""
        start = self.log_start_offset
        if start is None or offset is None:
            return
        before = offset - 1 if record.previous_offset is None else record.previous_offset
        if before >= start:
            self._break(
                record,
                offset,
                f"the record before it was at offset {before}, which has not expired (the log begins at "
                f"{start}): it is missing",
            )

    def _follow(self, chain: Chain, record: SealedRecord, offset: int | None) -> None:
        if "late" in record.details:
            self._take_explanation(chain, record, offset)
        elif chain.late and not (record.event == CHAIN_RESUMED and record.run != chain.run):
            self._unexplained(chain)
        problem = self._problem(chain, record, offset)
        if problem is not None:
            self._break(record, offset, problem)
        if record.run != chain.run:
            self._begin_run(chain, record, offset)
        elif record.event == CHAIN_RESUMED and record.details.get("after") == "loss":
            self._break(record, offset, "the node has found records missing that it had written")
        if record.event == EVENTS_LOST:
            text = f"{record.fields['count']} events were not recorded, says the node"
            self.gaps.add(Finding(offset, record.node, record.sequence, text))

    def _problem(self, chain: Chain, record: SealedRecord, offset: int | None) -> str | None:
        """The reason why the record does not continue the chain."""
        end = chain.end
        if record.sequence != end.sequence + 1:
            if self._continues_earlier(chain, record):
                chain.late.append(end)
                return None
            if record.sequence <= end.sequence:
                return f"sequence {record.sequence} follows {end.sequence}"
            missing = record.sequence - end.sequence - 1
            return f"sequence {record.sequence} follows {end.sequence}: {missing} records are missing"
        if record.previous_hash != end.hash:
            return f"previous_hash is {record.previous_hash}, the record before it has {end.hash}"
        if offset is None or end.offset is None:
            return None
        before = offset - 1 if record.previous_offset is None else record.previous_offset
        if before != end.offset:
            return f"the record before it was written at offset {before}, and is at {end.offset}"
        return None

    def _continues_earlier(self, chain: Chain, record: SealedRecord) -> bool:
        """Whether it is a run's first record, and continues a record before the chain's last one."""
        if record.run == chain.run or record.sequence > chain.end.sequence:
            return False
        if record.event == CHAIN_STARTED:
            return (record.sequence, record.previous_hash) == (0, FIRST_PREVIOUS_HASH)
        if record.event != CHAIN_RESUMED:
            return False
        if record.sequence == chain.first_sequence and not chain.begins:
            return True  # the one that it continues has expired
        earlier = (record.sequence - 1, record.previous_hash)
        return any((each.sequence, each.hash) == earlier for each in chain.tail)

    def _begin_run(self, chain: Chain, record: SealedRecord, offset: int | None) -> None:
        chain.runs += 1
        if record.event != CHAIN_RESUMED and not chain.late:
            self._break(record, offset, f"a run begins with {CHAIN_RESUMED}, not with {record.event}")
        elif record.details.get("after") == "loss":
            self._break(record, offset, "the node has found records missing that it had written")
        elif not chain.ended:
            text = f"run {chain.run} ended without saying so: events just before may be missing"
            self.gaps.add(Finding(offset, record.node, record.sequence, text))

    def _check_signature(self, chain: Chain, record: SealedRecord, offset: int | None) -> None:
        if record.mac is None:
            if self._keys and chain.signed:
                self._break(record, offset, "it is not signed, records before it are")
            return
        chain.signed += 1
        if self._keys and not record.is_signed_by(self._keys):
            self._break(record, offset, "its signature fits no key that was given")

    def _check_known_end(self, record: SealedRecord, offset: int | None) -> None:
        known = self._known_ends.get(record.node)
        if known is None or known.sequence != record.sequence:
            return
        del self._known_ends[record.node]
        if known.hash != record.hash:
            self._break(record, offset, f"its hash is {record.hash}, and was {known.hash} before")

    def _take(self, chain: Chain, record: SealedRecord, offset: int | None) -> None:
        chain.end = ChainEnd(record.sequence, record.hash, offset)
        chain.tail.append(chain.end)
        chain.run = record.run
        chain.ended = record.event == CHAIN_ENDED
        chain.records += 1
        chain.events += record.fields["count"]

    # -- findings ---------------------------------------------------------------------------------------

    def _break(self, record: SealedRecord, offset: int | None, text: str) -> None:
        self.broken.add(Finding(offset, record.node, record.sequence, text))

    def _take_explanation(self, chain: Chain, record: SealedRecord, offset: int | None) -> None:
        """A record names late ones: all that wait for it, and none that are not here or have expired."""
        named = {tuple(each) for each in record.details["late"] if isinstance(each, list)}
        waiting = {(each.sequence, each.hash) for each in chain.late}
        seen = {(each.sequence, each.hash) for each in chain.tail}
        may_have_expired = not chain.begins and chain.runs == 1
        if not waiting <= named or not (named <= seen or may_have_expired):
            self._break(record, offset, "the late records that it names are not those that are here")
        chain.late.clear()

    def _unexplained(self, chain: Chain) -> None:
        late = ", ".join(str(each.sequence) for each in chain.late)
        text = f"its run does not continue the records before it up to sequence {late}, and does not say why"
        self.broken.add(Finding(chain.end.offset, chain.node, chain.end.sequence, text))
        chain.late.clear()


def _node_of(key: bytes | None) -> int | None:
    return int(key) if key is not None and len(key) < 12 and key.isdigit() else None
