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
            raise ValueError("--concurrency and --request-rate both set the levels: give only one")
        if not self.concurrency and not self.request_rate:
            raise ValueError("a sweep needs levels of load: --concurrency 1,2,4,8 or --request-rate 1,2,4")
        for name, levels in (("--concurrency", self.concurrency), ("--request-rate", self.request_rate)):
            _check_list(name, levels)
            if levels and min(levels) <= 0:
                raise ValueError(f"{name} {min(levels):g}: a level is more than 0")
        return self

    @property
    def lengths(self) -> tuple[int, ...]:
        """The draft lengths; none where the sweep is over load alone."""
        return tuple(k for k, _ in self.server) if self.server else self.k

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        given, lengths = self.model_fields_set, self.lengths
        if self.server and self.serve is not None:
            raise ValueError("--server names running servers and --serve starts servers: give only one")
        if self.server and self.k:
            raise ValueError("--server already lists the draft lengths: leave out --k")
        if self.k and self.serve is None:
            raise ValueError("--k needs --serve COMMAND (or --server K=URL): a running server keeps its draft length")
        if not lengths:
            for name in ("serve", "serve_without", "serve_timeout", "baseline", "economy"):
                if name in given:
                    raise ValueError(f"--{name.replace('_', '-')} needs --k: the draft lengths")
            return self
        _check_list("--server" if self.server else "--k", lengths)
        if min(lengths) < 0:
            raise ValueError(f"--k {min(lengths)}: a draft length is 0 or more")
        return self

    @model_validator(mode="after")
    def _check_base(self) -> Self:
        if not self.lengths:
            return self
        if 0 not in self.lengths and self.baseline is None:
            raise ValueError("speed-up is measured against k = 0: list 0 among the draft lengths, or give --baseline")
        if 0 in self.lengths and self.baseline is not None:
            raise ValueError("--baseline and k = 0 are both a base for the speed-up: give only one")
        if self.serve_without is not None and 0 not in self.lengths:
            raise ValueError("--serve-without starts the server of k = 0, which --k does not list")
        if self.economy and len({*self.lengths, 0}) < 3:
            raise ValueError("--economy predicts draft lengths between 0 and the largest: list some")
        return self


def _check_list(name: str, values: Sequence[float]) -> None:
    twice = [value for value, times in Counter(values).items() if times > 1]
    if twice:
        raise ValueError(f"{name}: {twice[0]:g} is listed twice")
