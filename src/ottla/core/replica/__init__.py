"""The state of one replica: a leader's in-sync set and high watermark, a follower's fetches, sessions."""
