"""How to reach a cluster, said once in the words of every client."""
