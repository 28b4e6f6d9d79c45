"""The options of what is shown and judged of a run. `ReportSettings` validates those that a file may hold."""

from dataclasses import dataclass
from pathlib import Path

from aiperf_spec.config.choices import ReportFormat, ReportSource, Ui
from aiperf_spec.config.goodput import parse_goodput
from aiperf_spec.config.option import ANALYSIS, GATES, OUTPUT, OWN, Options, option


class ResultOptions(Options):
    """They mean the same for a run that has just ended and for `report` on its folder."""

    full: bool = option("Print every table.", OUTPUT, place="artifacts.full", default=False)
    rows: int = option("Requests to list.", OUTPUT, "N", "artifacts.rows", ge=0, default=10)
    draft_cost: float | None = option(
        "Time to draft one token / time of one verify step. Shows the best draft length.",
        ANALYSIS,
        "C",
        ge=0,
        default=None,
    )
    assume_chain: bool = option(
        "Treat drafts as chains of one length if the engine does not say what they are.", ANALYSIS, default=False
    )
    by_category: bool = option("Show the position acceptance of each category.", ANALYSIS, default=False)
    worst: int = option("Number of requests with the lowest acceptance length to list.", ANALYSIS, "N", ge=0, default=5)
    baseline: Path | None = option(
        "Folder of a run without speculation, to compute the speed-up.", ANALYSIS, "DIR", default=None
    )
    baseline_itl: float | None = option(
        "Inter-token latency without speculation, in ms, instead of --baseline.", ANALYSIS, "MS", gt=0, default=None
    )
    require: tuple[str, ...] = option(
        "Gate, such as 'acceptance_length >= 2.1'. Repeatable. Exit code 3 if one is not met.",
        GATES,
        "EXPR",
        default=(),
    )
    strict: bool = option("Require the whole 95 % interval to meet each gate.", GATES, default=False)
    goodput: dict[str, float] = option(
        "Limits that a request has to meet to count for goodput, such as 'request_latency:250 inter_token_latency:10'.",
        GATES,
        "LIMITS",
        "slos",
        read=parse_goodput,
        default={},
    )
    base: Path | None = option("Folder of the run that `base` refers to in a gate.", GATES, "DIR", default=None)


@dataclass(frozen=True)
class RunDisplay(Options):
    """How one call shows a run: `ui` while it goes on; then all tables, the acceptance table, or JSON."""

    dry_run: bool = option("Print the first request without sending it.", OUTPUT, default=False)
    ui: Ui = option(
        "Progress display: live, simple (a line every 10 s), none, or auto (live on a terminal, else simple).",
        OUTPUT,
        "UI",
        default=Ui.AUTO,
    )
    quiet: bool = option(
        "Print only the acceptance table, and no progress unless --ui is given.",
        OUTPUT,
        flags=("--quiet", "-q"),
        default=False,
    )
    as_json: bool = option(
        "Print only the summary, as JSON. Gates go to stderr.",
        OUTPUT,
        flags=("--json",),
        default=False,
    )
    source: ReportSource = option(
        "Source of acceptance for gates: records (auto) or server-metrics (the server's counters, all traffic).",
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

    metric: str = option(
        "Metric to show: accept_length, accept_rate, throughput, or any other that gates take, such as ttft.p99.",
        OWN,
        "METRIC",
        default="accept_length",
    )
    source: ReportSource = option(
        "Where figures come from: auto (the best source of each run), records, summary or server-metrics. "
        "Gates use server-metrics only where it is given.",
        OWN,
        "SOURCE",
        default=ReportSource.AUTO,
    )
    pool: bool = option("Treat all runs of a model as one run by several clients.", OWN, default=False)
    intervals: bool = option("Show the 95 % interval of each figure.", OWN, default=False)
    form: ReportFormat = option(
        "Output format: table, csv, json or markdown.", OWN, "FORMAT", flags=("--format",), default=ReportFormat.TABLE
    )
    output: Path | None = option("Write to this file instead of printing.", OWN, "FILE", default=None)
    html: Path | None = option("Also write a page with tables and charts (needs plots).", OWN, "FILE", default=None)
    analysis: bool = option("Show the analysis of each run. The options below imply it.", ANALYSIS, default=False)
