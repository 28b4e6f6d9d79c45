"""The options of what is shown and judged of a run. `ReportSettings` validates those that a file may hold."""

from dataclasses import dataclass
from pathlib import Path

from aiperf_spec.config.choices import ReportFormat, ReportMetric, ReportSource, Ui
from aiperf_spec.config.option import ANALYSIS, GATES, OUTPUT, OWN, Options, option


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
        "Assume that drafts are chains of one length where the engine does not say so.", ANALYSIS, default=False
    )
    by_category: bool = option("Show the position curve of each category.", ANALYSIS, default=False)
    worst: int = option(
        "How many of the requests with the smallest acceptance length to list.", ANALYSIS, "N", ge=0, default=5
    )
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
    strict: bool = option("Require the whole 95 % interval to meet each gate.", GATES, default=False)
    base: Path | None = option("Folder of the run that `base` in a gate means.", GATES, "DIR", default=None)


@dataclass(frozen=True)
class RunDisplay(Options):
    """How one call shows a run: `ui` while it goes on; then all tables, the acceptance table, or JSON."""

    dry_run: bool = option("Print the first request, send nothing.", OUTPUT, default=False)
    ui: Ui = option(
        "Progress: live, simple (a line every 10 s), none, or auto: live on a terminal, else simple.",
        OUTPUT,
        "UI",
        default=Ui.AUTO,
    )
    quiet: bool = option(
        "Print the acceptance table only; no progress, unless --ui asks for it.",
        OUTPUT,
        flags=("--quiet", "-q"),
        default=False,
    )
    as_json: bool = option(
        "Print the summary as JSON on stdout and nothing else; gates go to stderr.",
        OUTPUT,
        flags=("--json",),
        default=False,
    )
    source: ReportSource = option(
        "Where gates take acceptance from: records (auto), or server-metrics: the server's counters, all traffic.",
        GATES,
        "SOURCE",
        default=ReportSource.AUTO,
    )

    @property
    def progress(self) -> Ui:
        """How the run is shown while it goes on: not at all where it is to be quiet, unless that is asked for."""
        return Ui.NONE if self.quiet and self.ui is Ui.AUTO else self.ui


@dataclass(frozen=True)
class ReportDisplay(Options):
    """What one call of `report` shows of runs, and where to."""

    metric: ReportMetric = option(
        "accept_length, accept_rate or throughput.", OWN, "METRIC", default=ReportMetric.ACCEPT_LENGTH
    )
    source: ReportSource = option(
        "auto (the best that a run has), records, summary or server-metrics; gates use the last where it is given.",
        OWN,
        "SOURCE",
        default=ReportSource.AUTO,
    )
    pool: bool = option("Join all runs of a model: several clients of one run.", OWN, default=False)
    intervals: bool = option("Give each figure's 95 % interval.", OWN, default=False)
    form: ReportFormat = option(
        "table, csv, json or markdown.", OWN, "FORMAT", flags=("--format",), default=ReportFormat.TABLE
    )
    output: Path | None = option("Write to this file instead of printing.", OWN, "FILE", default=None)
    html: Path | None = option("Also write a page with tables and charts (needs plots).", OWN, "FILE", default=None)
    analysis: bool = option("Show the analysis of each run; implied by the options below.", ANALYSIS, default=False)
