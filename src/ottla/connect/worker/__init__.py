"""A worker of a Connect cluster: its part in the group, the requests that it takes, the processes it runs."""
