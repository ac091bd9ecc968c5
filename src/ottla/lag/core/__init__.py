"""Decisions about lag, without I/O and without a clock: windows, verdicts, times of offsets, incidents."""
