"""What runs must have in common for their answers to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiperf_spec.analysis.clusters import measured
from aiperf_spec.analysis.comparison.mismatches import Run
from aiperf_spec.errors import SpecProfileError

_DECISIVE = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "max_tokens", "max_completion_tokens", "min_tokens"),
    *("ignore_eos", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "response_format"),
)
"""Fields of a request's body that change its answer by themselves."""


def expect_comparable(base: Run, others: Sequence[Run]) -> None:
    """Raise `SpecProfileError` naming a run whose answers say nothing of a drafter beside the base's.

    They were not recorded, or are sampled without a seed, or its requests asked for other answers.
    """
    for run in (base, *others):
        _expect_determined(run)
        _expect_same_request(base, run)


def _expect_determined(run: Run) -> None:
    answers = [record.answer for record in measured(run.records) if record.answer is not None]
    if not answers:
        raise SpecProfileError(
            f"{run.name!r}: its records do not say what was answered",
            "compare runs that this version recorded, with one answer a request",
        )
    if any(answer.temperature is None for answer in answers):
        # The default of most engines, or of the model's own configuration, is to sample.
        raise SpecProfileError(
            f"{run.name!r}: its requests left the temperature to the server, which may have sampled the answers",
            "repeat the run with --temperature 0",
        )
    if (sampled := next((each for each in answers if each.temperature and not each.seeded), None)) is not None:
        raise SpecProfileError(
            f"{run.name!r}: its answers were sampled at temperature {sampled.temperature:g} without a seed, so any two "
            "runs differ by chance",
            "repeat the run with --temperature 0, or with a seed: --extra-inputs seed:1",
        )


def _expect_same_request(base: Run, run: Run) -> None:
    mine, theirs = base.settings, run.settings
    asked: list[tuple[str, Any, Any]] = []
    if mine.endpoint is not None and theirs.endpoint is not None:
        asked.append(("endpoint", mine.endpoint, theirs.endpoint))
    if mine.sampling is not None and theirs.sampling is not None:
        asked += [(name, mine.sampling.get(name), theirs.sampling.get(name)) for name in _DECISIVE]
    for name, *values in asked:
        if values[0] != values[1]:
            shown = " and ".join("the server's default" if value is None else str(value) for value in values)
            raise SpecProfileError(
                f"{base.name!r} and {run.name!r} asked for other answers: {name} {shown}",
                "compare runs that differ in nothing but the drafter",
            )
