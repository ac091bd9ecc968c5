"""ksqlDB's types: what they are, what stands for what, and what arithmetic makes of them."""
