"""One replica's state: a leader's in-sync set and high watermark, a follower's next fetch, fetch sessions."""
