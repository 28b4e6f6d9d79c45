"""The options of what is shown and judged of a run. `ReportSettings` validates them."""

from pathlib import Path
from typing import Annotated

from aiperf_spec.config.option import Option, Options, Panel


class ResultOptions(Options):
    """They mean the same for a run that has just ended and for `report` on its folder."""

    rows: Annotated[int, Option("Requests to list in the last table.", Panel.OUTPUT, "N", "artifacts.rows", ge=0)] = 20
    draft_cost: Annotated[
        float | None,
        Option(
            "Draft time per token / target time per verify step: adds the best draft length.", Panel.ANALYSIS, "C", ge=0
        ),
    ] = None
    assume_chain: Annotated[
        bool,
        Option("Take drafts for chains of one length where the report does not show it.", Panel.ANALYSIS),
    ] = False
    by_category: Annotated[bool, Option("Show the position curve of each category.", Panel.ANALYSIS)] = False
    worst: Annotated[
        int, Option("Requests to list that have the smallest acceptance length.", Panel.ANALYSIS, "N", ge=0)
    ] = 5
    baseline: Annotated[
        Path | None, Option("Folder of a run without speculation, for the speed-up.", Panel.ANALYSIS, "DIR")
    ] = None
    baseline_itl: Annotated[
        float | None,
        Option("Inter-token latency without speculation, instead of a run.", Panel.ANALYSIS, "MS", gt=0),
    ] = None
    require: Annotated[
        tuple[str, ...],
        Option(
            "Gate, such as 'acceptance_length >= 2.1'; repeatable. Exit code 3 where one is not met.",
            Panel.GATES,
            "EXPR",
        ),
    ] = ()
    strict: Annotated[bool, Option("Gates hold for the whole 95 % interval.", Panel.GATES)] = False
    base: Annotated[Path | None, Option("Folder of the run that `base` in a gate means.", Panel.GATES, "DIR")] = None
