"""The rooms of the package: what may import what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiperf_spec

PACKAGE = Path(aiperf_spec.__file__).parent
# From the top down; rooms that share a level may not import each other.
LEVELS = (
    ("__main__", "__init__"),
    ("cli",),
    ("profiling",),
    ("load",),
    ("artifacts",),
    ("server_metrics",),
    ("render", "client"),
    ("wire", "analysis"),
    ("adapters", "workload", "metrics"),
    ("models",),
    ("config",),
    ("errors", "version"),
)
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {_name(path) for path in MODULES}


def _room(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def _imports(path: Path) -> Iterator[str]:
    package = _name(path) if path.name == "__init__.py" else _name(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("aiperf_spec"))
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            if module.startswith("aiperf_spec"):
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield inner if inner in NAMES else module


def test_imports_run_downwards() -> None:
    upwards = [
        f"{_name(path)} imports {target}"
        for path in MODULES
        if _room(_name(path)) not in ("simulator", "__init__", "__main__")
        for target in _imports(path)
        if _room(target) not in (_room(_name(path)), "__init__", "simulator")
        and LEVEL_OF[_room(target)] <= LEVEL_OF[_room(_name(path))]
    ]
    assert upwards == []


def test_the_simulator_imports_nothing_of_ours_and_serves_the_command_line_alone() -> None:
    for path in MODULES:
        room = _room(_name(path))
        for target in _imports(path):
            if room == "simulator":
                assert _room(target) == "simulator", f"{_name(path)} imports {target}"
            elif _room(target) == "simulator":
                assert room == "cli", f"{_name(path)} imports {target}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        _name(path): {target for target in _imports(path) if target in NAMES} - {_name(path)}
        for path in MODULES
        if _name(path) != "aiperf_spec"
    }
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            pytest.fail(" -> ".join([*way[way.index(module) :], module]))
        if module in done or module not in graph:
            return
        for target in graph[module]:
            visit(target, (*way, module))
        done.add(module)

    for module in graph:
        visit(module, ())


class _WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def test_adapters_alone_know_an_engine() -> None:
    """No code names an engine or one of its metrics; comments and docstrings may, as a reason."""
    for path in MODULES:
        if _room(_name(path)) not in ("adapters", "simulator"):
            code = ast.unparse(_WithoutDocstrings().visit(ast.parse(path.read_bytes())))
            named = re.search(r".*(vllm|sglang|tensorrt|trtllm|trt_llm).*", code, re.IGNORECASE)
            assert named is None, f"{_name(path)}: {named[0]}"


def test_few_modules_stand_at_the_top() -> None:
    top = {path.stem for path in PACKAGE.glob("*.py")}
    assert top == {"__init__", "__main__", "errors", "profiling", "version"}
