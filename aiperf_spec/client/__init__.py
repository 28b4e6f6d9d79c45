"""Talk HTTP to the server."""

import sys

if "httpx" not in sys.modules:
    # Where it can, httpx imports a command line of its own, with click and pygments: a sixth of a worker's start.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    import httpx  # noqa: F401

    del sys.modules["httpx._main"]
