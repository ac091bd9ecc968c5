"""KRaft: votes, epochs, the high watermark, snapshots and voters of the metadata log, without I/O."""
