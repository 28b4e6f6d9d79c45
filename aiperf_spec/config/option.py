"""What an option is. It is declared once, as the annotation of a field, and everything else is made from that.

The command line, the configuration file, the models that validate and the reference page read these declarations.
This module imports no pydantic, for `--help` has to be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, dataclass_transform, get_args, get_origin, get_type_hints

REQUIRED: Any = ...
"""The default of an option that has none."""


class Panel(StrEnum):
    """The groups of options, in the order in which help shows them."""

    SERVER = "Server"
    LOAD = "Load"
    PROMPTS = "Prompts"
    REQUEST = "Request"
    OUTPUT = "Output"
    ANALYSIS = "Analysis"
    GATES = "Gates"


@dataclass(slots=True, frozen=True)
class Option:
    """An option, as metadata of `Annotated`: type and default are its field's.

    Bounds hold wherever the value comes from; pydantic checks them, for this is metadata of annotated-types' grouped
    kind.
    """

    help: str
    panel: Panel
    metavar: str | None = None
    place: str | None = ""
    """Where it stands under `benchmark` in a configuration file, such as "endpoint.timeout"; "": by its field's name;
    None: in no file."""
    flags: tuple[str, ...] = ()
    """Its names on the command line, where they are not made from the field's; see `Declaration.flags`."""
    only_in_file: bool = False
    env: str | None = None
    """The environment variable that is read where the command line does not give the option."""
    read: Callable[[list[str]], Any] | None = None
    """Makes the value from the texts of a repeatable option, where it is more than a list of them."""
    secret: bool = False
    """Whether the value may hold a secret: no error and no repr shows it."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None

    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[Any]:
        """Yield the bounds as annotated-types has them."""
        from annotated_types import Ge, Gt, Le, MinLen

        for bound, kind in ((self.ge, Ge), (self.gt, Gt), (self.le, Le), (self.min_length, MinLen)):
            if bound is not None:
                yield kind(bound)  # type: ignore[arg-type]

    @property
    def range(self) -> str:
        """The bounds as help shows them, such as "1<=x<=64"; "" where there are none."""
        if self.ge is not None and self.le is not None:
            return f"{self.ge}<=x<={self.le}"
        bounds = ((">=", self.ge), (">", self.gt), ("<=", self.le))
        return next((f"x{sign}{bound}" for sign, bound in bounds if bound is not None), "")


@dataclass_transform(kw_only_default=True)
class Options:
    """A class of declared options: each field is one. A pydantic model that inherits it validates them."""


@dataclass(slots=True, frozen=True)
class Declaration:
    """A field of a class of options: its name, the type without metadata, the default and the option itself."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """The names on the command line; a switch that is on by default has one to turn it off."""
        if self.option.flags:
            return self.option.flags
        flag = "--" + self.name.replace("_", "-")
        return (f"{flag}/{flag.replace('--', '--no-', 1)}" if self.default is True else flag,)

    @property
    def place(self) -> tuple[str, str] | None:
        """The section of a configuration file ("" for `benchmark` itself) and the key in it; None: in no file."""
        if self.option.place is None:
            return None
        section, _, key = self.option.place.rpartition(".")
        return section, key or self.name


@cache
def declarations(options: type[Options]) -> dict[str, Declaration]:
    """Return the declared options of a class by field, in their order."""
    found = {}
    for name, annotated in get_type_hints(options, include_extras=True).items():
        if get_origin(annotated) is Annotated:
            kind, *metadata = get_args(annotated)
            (option,) = (each for each in metadata if isinstance(each, Option))
            found[name] = Declaration(name, kind, getattr(options, name, REQUIRED), option)
    return found
