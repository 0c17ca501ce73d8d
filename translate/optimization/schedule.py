"""The learning rate of every update, as a pure function of its number: nothing to save, nothing to restore."""

import math
from collections.abc import Callable

from translate.config.training import (
    ConstantScheduleConfig,
    CosineScheduleConfig,
    InverseSqrtScheduleConfig,
    LinearScheduleConfig,
    ScheduleConfig,
)

Schedule = Callable[[int], float]


def build_schedule(config: ScheduleConfig, *, total_steps: int) -> Schedule:
    """Fraction of the peak rate at update 1, 2, … `total_steps`; all rise linearly for `warmup_steps` updates."""
    warmup = config.warmup_steps

    def decay(step: int) -> float:
        """What is left of the peak after the warm-up."""
        progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        match config:
            case ConstantScheduleConfig():
                return 1.0
            case InverseSqrtScheduleConfig():
                return math.sqrt(warmup / step)
            case CosineScheduleConfig():
                return config.final_share + (1 - config.final_share) * (1 + math.cos(math.pi * progress)) / 2
            case LinearScheduleConfig():
                return config.final_share + (1 - config.final_share) * (1 - progress)

    def share(step: int) -> float:
        return step / warmup if step < warmup else decay(step)

    return share
