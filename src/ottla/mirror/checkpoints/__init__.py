"""MirrorCheckpoint and MirrorHeartbeat: where a consumer goes on in the other cluster."""
