"""How well VADER agrees with people, over a stream of pairs of scores: same sign, Pearson's correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Agreement:
    """Running sums over pairs of scores, a person's and a machine's."""

    pairs: int = 0
    same_sign: int = 0
    _sum_human: float = 0.0
    _sum_machine: float = 0.0
    _sum_human_squared: float = 0.0
    _sum_machine_squared: float = 0.0
    _sum_product: float = 0.0

    def add(self, human: float, machine: float) -> None:
        self.pairs += 1
        self.same_sign += _sign(human) == _sign(machine)
        self._sum_human += human
        self._sum_machine += machine
        self._sum_human_squared += human * human
        self._sum_machine_squared += machine * machine
        self._sum_product += human * machine

    @property
    def sign_percent(self) -> float | None:
        """The share of pairs that are both positive, both negative or both zero; None without pairs."""
        return 100.0 * self.same_sign / self.pairs if self.pairs else None

    @property
    def pearson_r(self) -> float | None:
        """Pearson's r, -1 to 1; None while one of the two does not vary."""
        n = self.pairs
        spread = (n * self._sum_human_squared - self._sum_human**2) * (
            n * self._sum_machine_squared - self._sum_machine**2
        )
        if n < 2 or spread <= 0:
            return None
        return (n * self._sum_product - self._sum_human * self._sum_machine) / math.sqrt(spread)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
