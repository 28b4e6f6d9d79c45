"""A first look without a server: the embedded simulator as each engine in turn."""

import shlex
import socket
import sys
from pathlib import Path

import typer

from aiperf_spec.adapters.engines import known_engines
from aiperf_spec.analysis.answer import answer_of
from aiperf_spec.cli.interrupt import signals_put_back
from aiperf_spec.cli.run import measure, say_notices
from aiperf_spec.cli.terminal import note, say_next, show_faults, stdout, translated_errors
from aiperf_spec.config.choices import Ui
from aiperf_spec.config.settings import ProfileConfig, ReportSettings
from aiperf_spec.config.sweep_settings import SweepSettings
from aiperf_spec.errors import ExitCode
from aiperf_spec.render.answer import answer_block
from aiperf_spec.render.side_by_side import RunRow, runs_table
from aiperf_spec.simulator import ENGINES, SimulatorConfig
from aiperf_spec.simulator.process import SimulatorProcess

_FOLDER = Path("artifacts") / "demo"
_COSTS = {"--step-time-ms": 5.0, "--draft-time-ms": 0.2, "--batch-time-ms": 0.375}
"""What the steps of the sweep cost: k 4 then stops paying at a concurrency of about 7, and k 2 at about 15."""
_SWEPT = {"k": (0, 2, 4), "concurrency": (2, 10, 32), "repeat": 3}


def demo(requests: int, concurrency: int) -> None:
    """Profile each engine's simulator in a process of its own; print the answer of each, and one table over all."""
    runs = []
    worst = ExitCode.OK
    settings = ReportSettings()
    with translated_errors(), signals_put_back():
        for engine in ENGINES:
            with SimulatorProcess(SimulatorConfig(engine=engine, model=f"simulated-{engine}")) as simulator:
                measured = measure(_config(engine, simulator.url, requests, concurrency), settings)
            say_notices(measured)
            answer = answer_of(measured.result, measured.summary, measured.analysis)
            stdout().print(answer_block(measured.result, answer))
            show_faults(measured.faults)
            runs.append(RunRow(engine, answer.setup, measured.summary))
            worst = max(worst, measured.exit_code)
            if measured.result.stopped_by is not None:
                break
        stdout().print("")
        stdout().print(runs_table(runs))
        say_next("report", str(_FOLDER / ENGINES[0]))
    raise typer.Exit(worst)


def demo_sweep(requests: int) -> None:
    """Sweep a simulator in which each draft length stops paying at a load of its own."""
    from aiperf_spec.cli.sweep import sweep

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    costs = [word for name, value in _COSTS.items() for word in (name, f"{value:g}")]
    serve = shlex.join([sys.executable, "-m", "aiperf_spec", "simulate", "--port", str(port), *costs])
    base = ProfileConfig.create(
        url=f"http://127.0.0.1:{port}",
        request_count=requests,
        max_tokens=24,
        temperature=0,
        extra_inputs={"ignore_eos": True},
    )
    settings = SweepSettings.create(**_SWEPT, serve=f"exec {serve} --num-spec-tokens {{k}}", settle_time=0)
    with translated_errors():
        note(
            "a simulated step takes {--step-time-ms:g} ms, {--draft-time-ms:g} ms more for each token of the draft "
            "length, and {--batch-time-ms:g} ms more for each token of the batch".format_map(_COSTS)
        )
    sweep(base, ReportSettings(), settings, ui=Ui.AUTO)


def _config(engine: str, url: str, requests: int, concurrency: int) -> ProfileConfig:
    return ProfileConfig.create(
        url=url,
        concurrency=concurrency,
        request_count=requests,
        max_tokens=64,
        temperature=0,
        use_server_token_count=True,
        extra_inputs={**known_engines()[engine].request_inputs, "ignore_eos": True},
        artifact_dir=_FOLDER / engine,
        overwrite=True,
    )
