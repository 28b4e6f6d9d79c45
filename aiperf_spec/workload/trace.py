"""When the rows of a trace are due, under `--fixed-schedule`."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import InputFileError
from aiperf_spec.workload.prompts import Prompt

_MAX_WAIT_MS = 86_400_000


def in_trace(prompts: Iterable[Prompt], config: ProfileConfig) -> Iterator[Prompt]:
    """Yield the prompts within the offsets, `due_ms` counted from the start of the run; they come in order of time.

    The start is the start offset, the first prompt's timestamp, or 0, as AIPerf (0.13) has it; both offsets are part
    of what is sent. Raises `InputFileError` where the order is another, where nothing is left, and where the first
    prompt is due more than a day after the start.
    """
    first, last = config.fixed_schedule_start_offset, config.fixed_schedule_end_offset
    zero_ms = None if first is None and config.fixed_schedule_auto_offset else float(first or 0)
    before_ms, is_empty = None, True
    for prompt in prompts:
        at_ms = prompt.due_ms or 0.0
        if before_ms is not None and at_ms < before_ms:
            raise InputFileError(
                f"--fixed-schedule: timestamp {at_ms:.15g} follows {before_ms:.15g}, in a file too large to sort",
                "sort it by its timestamps, or take a part of it",
            )
        before_ms = at_ms
        if (first is not None and at_ms < first) or (last is not None and at_ms > last):
            continue
        zero_ms = at_ms if zero_ms is None else zero_ms
        if is_empty and at_ms - zero_ms > _MAX_WAIT_MS:
            raise InputFileError(
                f"--fixed-schedule: the first row would be sent {(at_ms - zero_ms) / _MAX_WAIT_MS:,.1f} days after the "
                f"start, at its timestamp {at_ms:.15g} (milliseconds)",
                "--fixed-schedule-auto-offset starts at the first row, --fixed-schedule-start-offset at a time",
            )
        is_empty = False
        yield _counted_from(zero_ms, prompt)
    if is_empty and before_ms is not None:
        raise InputFileError(
            f"--fixed-schedule: no timestamp lies within the offsets, the last one is {before_ms:.15g}",
            "--fixed-schedule-start-offset and --fixed-schedule-end-offset are timestamps of the file",
        )


def _counted_from(zero_ms: float, prompt: Prompt) -> Prompt:
    later = [
        each if each.due_ms is None else each._replace(due_ms=each.due_ms - zero_ms) for each in prompt.later_settings
    ]
    return replace(prompt, due_ms=(prompt.due_ms or 0.0) - zero_ms, later_settings=tuple(later))
