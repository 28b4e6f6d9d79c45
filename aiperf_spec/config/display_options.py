"""The options of how a command shows what it found. They are of one call: no configuration file holds them."""

from dataclasses import dataclass
from pathlib import Path

from aiperf_spec.config.choices import ReportFormat, ReportMetric, ReportSource, Ui
from aiperf_spec.config.option import ANALYSIS, OUTPUT, OWN, Options, option


@dataclass(frozen=True)
class RunDisplay(Options):
    """How a run is shown: `ui` while it goes on; then all tables, the acceptance table, or JSON."""

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

    @property
    def progress(self) -> Ui:
        """How the run is shown while it goes on: not at all where it is to be quiet, unless that is asked for."""
        return Ui.NONE if self.quiet and self.ui is Ui.AUTO else self.ui


@dataclass(frozen=True)
class ReportDisplay(Options):
    """What a report shows of runs, and where to."""

    metric: ReportMetric = option(
        "accept_length, accept_rate or throughput.", OWN, "METRIC", default=ReportMetric.ACCEPT_LENGTH
    )
    source: ReportSource = option(
        "auto (the best that a run has), records, summary or server-metrics.",
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
