"""A first look without a server: the embedded simulator as each engine in turn."""

from pathlib import Path

import typer
from rich.rule import Rule

from aiperf_spec.adapters.registry import known_engines
from aiperf_spec.cli.interrupt import signals_put_back
from aiperf_spec.cli.run import measure, print_run
from aiperf_spec.cli.terminal import show_faults, stdout, translated_errors
from aiperf_spec.config.result_options import RunDisplay
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.errors import ExitCode
from aiperf_spec.render.tables import runs_table
from aiperf_spec.simulator import ENGINES, SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess


def demo(requests: int, concurrency: int) -> None:
    """Profile each engine's simulator in a process of its own, and print one table over all."""
    runs = []
    worst = ExitCode.OK
    settings = ReportSettings(rows=5)
    with translated_errors(), signals_put_back():
        for engine in ENGINES:
            stdout().print(Rule(f"simulated {engine}"))
            with SimulatorProcess(SimulatorConfig(engine=engine, model=f"simulated-{engine}")) as simulator:
                measured = measure(_config(engine, simulator.url, requests, concurrency), settings)
            print_run(measured, settings, RunDisplay())
            show_faults(measured.faults)
            runs.append((engine, measured.summary))
            worst = max(worst, measured.exit_code)
            if measured.result.stopped_by is not None:
                break
        stdout().print(runs_table(runs))
    raise typer.Exit(worst)


def _config(engine: str, url: str, requests: int, concurrency: int) -> ProfileConfig:
    return ProfileConfig.create(
        url=url,
        concurrency=concurrency,
        request_count=requests,
        max_tokens=64,
        temperature=0,
        use_server_token_count=True,
        extra_inputs={**known_engines()[engine].request_inputs, "ignore_eos": True},
        artifact_dir=Path("artifacts") / "demo" / engine,
        overwrite=True,
    )
