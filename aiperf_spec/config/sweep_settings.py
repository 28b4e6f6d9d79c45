"""The settings of a sweep, apart from those of its runs."""

from collections import Counter
from collections.abc import Sequence
from typing import Self

from pydantic import model_validator

from aiperf_spec.config.settings import Settings
from aiperf_spec.config.sweep_options import SweepOptions


class SweepSettings(Settings, SweepOptions):
    """Which cells a sweep has, and how they are measured. The options are `SweepOptions`."""

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if self.concurrency and self.request_rate:
            raise ValueError("--concurrency and --request-rate both give the levels: give one of them")
        if not self.concurrency and not self.request_rate:
            raise ValueError("a sweep needs levels of load: --concurrency 1,2,4,8 or --request-rate 1,2,4")
        for name, levels in (("--concurrency", self.concurrency), ("--request-rate", self.request_rate)):
            _check_list(name, levels)
            if levels and min(levels) <= 0:
                raise ValueError(f"{name} {min(levels):g}: a level is more than 0")
        return self


def _check_list(name: str, values: Sequence[float]) -> None:
    twice = [value for value, times in Counter(values).items() if times > 1]
    if twice:
        raise ValueError(f"{name}: {twice[0]:g} is listed twice")
