"""The learning rate at single updates, by the formulas of the schema's descriptions."""

import math
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from translate.config.training import FixedLengthScheduleConfig, ScheduleConfig, TrainingConfig
from translate.optimization.schedule import Schedule, build_schedule

# settings, updates in all, and the share of the peak rate that is expected at some of them
CASES: list[tuple[dict[str, Any], int, dict[int, float]]] = [
    ({"kind": "constant"}, 100, {1: 1.0, 2: 1.0, 100: 1.0}),
    ({"kind": "constant", "warmup_steps": 10}, 100, {1: 0.1, 5: 0.5, 9: 0.9, 10: 1.0, 11: 1.0, 100: 1.0}),
    (
        {"kind": "inverse_sqrt", "warmup_steps": 16},
        100,
        {1: 1 / 16, 8: 0.5, 15: 15 / 16, 16: 1.0, 25: 4 / 5, 64: 0.5, 100: 0.4, 1600: 0.1},
    ),
    ({"kind": "inverse_sqrt", "warmup_steps": 1}, 9, {1: 1.0, 4: 0.5, 9: 1 / 3}),
    (
        {"kind": "cosine", "warmup_steps": 20},
        120,
        {1: 0.05, 10: 0.5, 20: 1.0, 45: (2 + math.sqrt(2)) / 4, 70: 0.5, 95: (2 - math.sqrt(2)) / 4, 120: 0.0},
    ),
    ({"kind": "cosine", "warmup_steps": 0, "final_share": 0.2}, 40, {20: 0.6, 40: 0.2, 41: 0.2, 99: 0.2}),
    ({"kind": "linear", "warmup_steps": 20}, 120, {1: 0.05, 10: 0.5, 20: 1.0, 45: 0.75, 70: 0.5, 120: 0.0}),
    ({"kind": "linear", "warmup_steps": 0, "final_share": 0.2}, 40, {1: 0.98, 20: 0.6, 40: 0.2, 41: 0.2, 99: 0.2}),
]


def schedule_of(settings: dict[str, Any], total_steps: int) -> Schedule:
    config: ScheduleConfig = TypeAdapter(TrainingConfig.model_fields["schedule"].rebuild_annotation()).validate_python(
        settings
    )
    return build_schedule(config, total_steps=total_steps)


@pytest.mark.parametrize(("settings", "total_steps", "expected"), CASES)
def test_closed_formulas(settings: dict[str, Any], total_steps: int, expected: dict[int, float]) -> None:
    schedule = schedule_of(settings, total_steps)
    assert {step: schedule(step) for step in expected} == pytest.approx(expected, abs=1e-12)


def test_every_schedule_of_the_schema_is_covered() -> None:
    in_schema = get_args(TrainingConfig.model_fields["schedule"].annotation)
    kinds = {get_args(config.model_fields["kind"].annotation)[0] for config in in_schema}
    assert kinds == {settings["kind"] for settings, _, _ in CASES}


@pytest.mark.parametrize("config", [config() for config in get_args(ScheduleConfig)], ids=lambda config: config.kind)
def test_a_schedule_that_depends_on_the_length_of_the_run_is_marked_as_such(config: ScheduleConfig) -> None:
    short, long = (build_schedule(config, total_steps=total) for total in (1000, 3000))
    differ = [short(step) for step in range(1, 1001)] != [long(step) for step in range(1, 1001)]
    assert differ == isinstance(
        config, FixedLengthScheduleConfig
    )  # by which resuming.py decides whether a run may become longer


@pytest.mark.parametrize("kind", sorted({settings["kind"] for settings, _, _ in CASES}))
@pytest.mark.parametrize("total_steps", [1, 5, 50])
def test_a_run_shorter_than_its_warm_up_only_rises(kind: str, total_steps: int) -> None:
    schedule = schedule_of({"kind": kind, "warmup_steps": 50}, total_steps)
    shares = [schedule(step) for step in range(1, total_steps + 1)]
    assert shares == [pytest.approx(step / 50) for step in range(1, total_steps + 1)]
