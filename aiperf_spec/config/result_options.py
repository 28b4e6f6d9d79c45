"""The options of what is shown and judged of a run. `ReportSettings` validates them."""

from pathlib import Path

from aiperf_spec.config.option import ANALYSIS, GATES, OUTPUT, Options, option


class ResultOptions(Options):
    """They mean the same for a run that has just ended and for `report` on its folder."""

    rows: int = option("Requests to list in the last table.", OUTPUT, "N", "artifacts.rows", ge=0, default=20)
    draft_cost: float | None = option(
        "Draft time per token / target time per verify step: adds the best draft length.",
        ANALYSIS,
        "C",
        ge=0,
        default=None,
    )
    assume_chain: bool = option(
        "Take drafts for chains of one length where the report does not show it.", ANALYSIS, default=False
    )
    by_category: bool = option("Show the position curve of each category.", ANALYSIS, default=False)
    worst: int = option("Requests to list that have the smallest acceptance length.", ANALYSIS, "N", ge=0, default=5)
    baseline: Path | None = option(
        "Folder of a run without speculation, for the speed-up.", ANALYSIS, "DIR", default=None
    )
    baseline_itl: float | None = option(
        "Inter-token latency without speculation, instead of a run.", ANALYSIS, "MS", gt=0, default=None
    )
    require: tuple[str, ...] = option(
        "Gate, such as 'acceptance_length >= 2.1'; repeatable. Exit code 3 where one is not met.",
        GATES,
        "EXPR",
        default=(),
    )
    strict: bool = option("Gates hold for the whole 95 % interval.", GATES, default=False)
    base: Path | None = option("Folder of the run that `base` in a gate means.", GATES, "DIR", default=None)
