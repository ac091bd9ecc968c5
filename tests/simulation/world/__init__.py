"""The simulated world of a cluster: time, hosts that fail, a network that loses, disks that forget."""
