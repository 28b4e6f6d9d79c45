"""What the adapters at hand say of their engines."""

from collections.abc import Collection, Mapping
from functools import cache

from aiperf_spec.adapters.description import EngineCounters, Engines
from aiperf_spec.adapters.registry import BUILT_IN, AdapterRegistry, load_registry
from aiperf_spec.errors import PluginError


@cache
def known_engines() -> Engines:
    """Return what the adapters at hand say of their engines, by name.

    Where plug-ins cannot be loaded, the built-in ones speak alone: a run refuses to start, but old runs can be read.
    """
    try:
        return load_registry().engines
    except PluginError:
        return AdapterRegistry(BUILT_IN).engines


def counters_in(names: Collection[str]) -> Mapping[str, EngineCounters]:
    """Return the counters by the names that a page has for them, by engine.

    A page that has one engine's own counter of verify steps is that engine's: its prefix is not one that a collector
    put in the place of another's.
    """
    described = {name: engine.counters for name, engine in known_engines().items()}
    own = {name: counters for name, counters in described.items() if counters.verify_steps in names}
    return own or {name: counters.named_in(names) for name, counters in described.items()}


def counts_speculation(name: str) -> bool:
    """Say whether a counter, named without `_total`, grows with verify steps.

    One of an engine that no adapter describes still tells by the words in its name.
    """
    return "spec_" in name or any(name in engine.counters.of_speculation for engine in known_engines().values())


def grows_with_steps(name: str) -> bool:
    """Say whether a counter, named without `_total`, stands still only where no step runs."""
    emitted = (engine.counters.emitted_tokens for engine in known_engines().values())
    return counts_speculation(name) or name in emitted
