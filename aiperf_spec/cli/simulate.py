"""Serve the simulator in the foreground."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from aiperf_spec.cli.terminal import stdout, translated_errors
from aiperf_spec.errors import ConfigError
from aiperf_spec.simulator import FAULTS, SimulatorConfig
from aiperf_spec.simulator.server import run


def simulate(*, faults: Sequence[str], **options: Any) -> None:
    """Serve until SIGINT or SIGTERM."""
    with translated_errors():
        shares = tuple(_fault(text) for text in faults)
        try:
            config = SimulatorConfig(**options, faults=shares)
        except ValueError as error:
            raise ConfigError(f"the simulator cannot be set up so: {error}") from None
        try:
            run(config, lambda url: stdout().print(Text(f"simulating {config.engine} at {url} (Ctrl-C ends it)")))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"--port {config.port} on {config.host}: {reason}", "choose another port") from None


def _fault(text: str) -> tuple[str, float]:
    name, _, share = text.partition(":")
    if name not in FAULTS:
        raise ConfigError(f"--fault {text!r}: no fault of this name", f"the names are {', '.join(FAULTS)}")
    try:
        return name, float(share)
    except ValueError:
        raise ConfigError(f"--fault {text!r}: expected NAME:SHARE", f"--fault {name}:0.1 hits one in ten") from None
