"""Whether what is told of a card is new: its own source time, or what stands in for one, has to move.

dcgm-exporter says what it collected last, and not when. Where its lines have times, those are the clock of what it
says; else a card's energy is, which grows as long as the card draws power, whatever it does.
"""

from dataclasses import dataclass
from fractions import Fraction

# A time that has not moved for more than so many of its own steps is old (gpu-monitoring-tools 188, dcgm-exporter 164).
_STEPS = 3
_STEP_SECONDS_MIN = 1.0
# The period of an exporter that nobody has told another.
_STEP_SECONDS_MAX = 30.0


@dataclass
class Freshness:
    """The source time of one card; all times are of the monotonic clock.

    `step_s` is how long it last took to move, 30 s until that is known; `repeats` how often it was seen again since.
    """

    mark: int | Fraction | None = None
    moved_at_s: float | None = None
    step_s: float = _STEP_SECONDS_MAX
    repeats: int = 0

    def see(self, mark: int | Fraction | None, now_s: float) -> float | None:
        """Note the source time of now; how long the last one stood, in seconds, where it has moved.

        None for a mark is a card that tells nothing which would show it.
        """
        if mark is None:
            self.mark = self.moved_at_s = None
            return None
        if mark == self.mark:
            self.repeats += 1
            return None
        stood_s = None if self.moved_at_s is None else now_s - self.moved_at_s
        if stood_s is not None:
            self.step_s = min(max(stood_s, _STEP_SECONDS_MIN), _STEP_SECONDS_MAX)
        # The first that is seen may be old.
        self.moved_at_s = None if self.mark is None else now_s
        self.mark, self.repeats = mark, 0
        return stood_s

    def stale_s(self, now_s: float) -> float | None:
        """For how long it has stood still, in seconds, where that is too long; None where it is new, or never moved."""
        if self.moved_at_s is None:
            return None
        still_s = now_s - self.moved_at_s
        return still_s if still_s > _STEPS * self.step_s else None
