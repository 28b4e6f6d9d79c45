"""What an option is. It is declared once, as a field, and everything else is made from that.

The command line, the configuration file, the models that validate and the reference page read these declarations.
This module imports no pydantic, for `--help` has to be quick.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, dataclass_transform

SERVER, LOAD, PROMPTS, REQUEST, OUTPUT = "Server", "Load", "Prompts", "Request", "Output"
ANALYSIS, GATES = "Analysis", "Gates"
OWN = ""
"""The group of a command's own options."""
PANELS = (SERVER, LOAD, PROMPTS, REQUEST, OUTPUT, ANALYSIS, GATES)
"""The groups of options, in the order in which help shows them."""


@dataclass(slots=True, frozen=True)
class Option:
    """A declared option; `option` describes the parameters. A model finds it in the metadata of the field's type.

    It is metadata of annotated-types' grouped kind, whose bounds pydantic checks.
    """

    help: str
    panel: str
    metavar: str | None = None
    place: str | None = ""
    flags: tuple[str, ...] = ()
    only_in_file: bool = False
    env: str | None = None
    read: Callable[[list[str]], Any] | None = None
    write: Callable[[Any], Iterable[str]] | None = None
    secret: bool = False
    sent: bool = False
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None
    default: Any = ...
    """`...` where a value must be given."""
    name: str = ""
    """The field's."""
    type: Any = None

    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[Any]:
        """Yield the bounds as annotated-types has them."""
        from annotated_types import Ge, Gt, Le, MinLen

        for bound, kind in ((self.ge, Ge), (self.gt, Gt), (self.le, Le), (self.min_length, MinLen)):
            if bound is not None:
                yield kind(bound)  # type: ignore[arg-type]

    @property
    def bounds(self) -> str:
        """The bounds as help shows them, such as "1<=x<=64"; "" where there are none."""
        for low, sign in ((self.ge, "<="), (self.gt, "<")):
            if low is not None and self.le is not None:
                return f"{low}{sign}x<={self.le}"
        found = ((">=", self.ge), (">", self.gt), ("<=", self.le))
        return next((f"x{sign}{bound}" for sign, bound in found if bound is not None), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the command line; a switch that is on by default has one that turns it off."""
        flag = "--" + self.name.replace("_", "-")
        return self.flags or (f"{flag}/--no-{flag[2:]}" if self.default is True else flag,)


def option(
    help: str,
    panel: str,
    metavar: str | None = None,
    place: str | None = "",
    **more: Any,
) -> Any:
    """Declare an option as a field of a class of `Options`: its name and type are the field's.

    `place` is where it stands under `benchmark` in a configuration file, such as "endpoint.timeout"; "" is its own
    name there, None is no place at all. `more` may be: `flags`, its names on the command line where they are not made
    from the field's; `only_in_file`; `env`, the environment variable that is read where the command line does not give
    it; `read`, which makes the value of a repeatable option from its texts where it is more than a list of them, and
    `write`, which makes such texts of it where `command_line` does not know how; `secret`, for a value that no error
    and no repr may show; `sent`, for what the request body holds under the field's name where it is given; the bounds
    `ge`, `gt`, `le`, `min_length`; and `default`,
    without which the option must be given.
    """
    return Option(help, panel, metavar, place, **more)


@dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Options:
    """A class of declared options. A pydantic model that inherits it has them as fields, and validates them."""

    def __init_subclass__(cls) -> None:
        """Put each declaration where pydantic looks: the default into the class, the bounds into the type."""
        for name, kind in cls.__annotations__.items():
            if isinstance(declared := cls.__dict__.get(name), Option):
                cls.__annotations__[name] = Annotated[kind, replace(declared, name=name, type=kind)]
                if declared.default is ...:
                    delattr(cls, name)
                else:
                    setattr(cls, name, declared.default)


def declared(options: type[Options]) -> dict[str, Option]:
    """Return the options that a class declares itself, by field."""
    return {name: kind.__metadata__[0] for name, kind in options.__annotations__.items()}
