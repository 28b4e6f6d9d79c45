"""Serve the simulator in the foreground."""

from __future__ import annotations

from rich.text import Text

from aiperf_spec.cli.terminal import stdout, translated_errors
from aiperf_spec.errors import ConfigError
from aiperf_spec.simulator import SimulatorConfig
from aiperf_spec.simulator.server import run


def simulate(**options: object) -> None:
    """Serve until SIGINT or SIGTERM."""
    with translated_errors():
        config = SimulatorConfig(**options)  # type: ignore[arg-type]
        try:
            run(config, lambda url: stdout().print(Text(f"simulating {config.engine} at {url} (Ctrl-C ends it)")))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"--port {config.port} on {config.host}: {reason}", "choose another port") from None
