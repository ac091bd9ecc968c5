"""What a simulated cluster lives in: time, hosts that fail, a network that loses, disks that forget."""
