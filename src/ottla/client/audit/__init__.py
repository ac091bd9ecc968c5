"""What several systems need of the audit: the mark of a record, a producer's report and its counters."""
