"""Stateful operators in plain Python, one a module; `operator.py` says what an operator is."""
