"""Run a simulated server in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from .config import SimulatorConfig

# A busy machine takes seconds to start an interpreter.
START_TIMEOUT_S = 60.0
ASK_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 0.7


class SimulatorProcess:
    """Start a server in a process of its own on entry and end it on exit.

    The child ends when the pipe to its input closes, so it never outlives its parent, however that ends;
    it has a session of its own, so Ctrl-C reaches the parent alone. Raises RuntimeError if it does not
    come up.
    """

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the child and wait until it answers requests."""
        package_root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "aiperf_spec.simulator", self.config.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            start_new_session=True,
        )
        line = self._first_line(self._process)
        if not line.startswith("http://"):
            self.stop()
            raise RuntimeError("the simulator did not come up; its own message is on stderr")
        self.url = line

    def stop(self) -> None:
        """End the child, by force if it lingers."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def ledger(self) -> list[dict[str, Any]]:
        """Fetch the ledger."""
        with urllib.request.urlopen(f"{self.url}/ledger", timeout=ASK_TIMEOUT_S) as response:
            return list(json.load(response))

    def reset_ledger(self) -> None:
        """Empty the ledger."""
        request = urllib.request.Request(f"{self.url}/ledger/reset", method="POST")
        urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S).close()

    def __enter__(self) -> SimulatorProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> str:
        # A thread, because a pipe can be read with a timeout on no other portable way.
        lines: list[bytes] = []
        output = process.stdout
        assert output is not None
        reader = threading.Thread(target=lambda: lines.append(output.readline()), daemon=True)
        reader.start()
        reader.join(START_TIMEOUT_S)
        if reader.is_alive():
            process.kill()
            reader.join()
        return lines[0].decode("utf-8", "replace").strip()
