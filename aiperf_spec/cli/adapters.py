"""List the adapters."""

from rich.text import Text

from aiperf_spec.adapters.registry import load_registry
from aiperf_spec.cli.terminal import note, stdout, translated_errors
from aiperf_spec.render.layout import table_of
from aiperf_spec.render.text import printable


def adapters() -> None:
    """Print each adapter, where its engine puts the object, and who brought it."""
    with translated_errors():
        registry = load_registry()
    table = table_of(("<engine", "<payload path", "<from"), title="Adapters", wraps="from")
    for adapter in registry.adapters:
        path = ".".join(adapter.implementation.payload_path)
        table.add_row(Text(printable(adapter.name)), Text(printable(path)), Text(printable(adapter.source)))
    stdout().print(table)
    for warning in registry.warnings:
        note(printable(warning, 400))
