"""Log compaction: only the last record of every key stays, at its old offset.

Theory of operation. A cleaning takes the closed segments of one log below its last stable offset, in four
steps, the first and the last on the event loop, the others in a process of their own:

    selection      the dirtiest log, the end of its section to clean, the segments that become one
    key_map        the last offset of every key in the dirty section (appended since the last cleaning),
                   within a bound on memory
    cleaning       every segment from the log's start to the end of the map is read again and written to
                   `.cleaned` files, without the records that the map shows to be outdated
    Log.replace_segments   `.cleaned` -> `.swap`, the old segments -> `.deleted`, `.swap` -> in place

Then `cleaner-offset-checkpoint` says where the next dirty section begins. A kill at any point leaves the old
segments or the new ones; `ottla.storage.recovery` completes or reverts the swap at the next start.

Beside the last record of each key these are kept, as in Apache Kafka:
- a tombstone, until `delete.retention.ms` after the first cleaning that met it (the delete horizon in its
  batch's header, KIP-534),
- a transaction's marker, until a cleaning met no record of the transaction any more and its horizon passed,
- the last batch of every producer that the log still knows, if only as an empty one with its sequences,
- the last batch of the cleaned section, so that offsets do not go back.
Records of aborted transactions go at once.

The modules here import no asyncio and nothing of the broker: the process that runs them stays small.
"""
