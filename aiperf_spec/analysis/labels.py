"""Short labels for several runs: what differs between them."""

import re
from collections.abc import Mapping, Sequence

_MADE_UP = re.compile(r"\d{8}T\d{6}Z-")
"""How the folder begins of a run that was given none."""


def labels(names: Sequence[str], properties: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a label for each run; no two are alike where no two names are.

    A label is the folder's name where somebody chose it, and the run's properties (engine, k, load) that others do not
    share. Of a name that was made up of time, model and load, only what the properties do not tell is taken.
    """
    differing = [key for key in dict.fromkeys(key for each in properties for key in each) if _differ(properties, key)]
    told = [", ".join(each[key] for key in differing if key in each) for each in properties]
    made_up = [bool(_MADE_UP.match(name.rpartition("/")[2])) for name in names]
    short = _own_parts(names)
    found = []
    for i, name in enumerate(names):
        if made_up[i] and told[i] and told.count(told[i]) == 1:
            found.append(told[i])
        else:
            found.append(", ".join(filter(None, (short[i] if made_up[i] else name, told[i]))))
    return found if len(set(found)) == len(set(names)) else list(names)


def _differ(properties: Sequence[Mapping[str, str]], key: str) -> bool:
    return len({each.get(key) for each in properties}) > 1


def _own_parts(names: Sequence[str]) -> list[str]:
    """Return names without the parts, between dashes, with which all of them begin or end."""
    parts = [name.split("-") for name in names]
    shortest = min(map(len, parts), default=0)
    head = next((i for i in range(shortest) if len({each[i] for each in parts}) > 1), shortest - 1)
    tail = next((i for i in range(shortest - head) if len({each[-1 - i] for each in parts}) > 1), 0)
    return ["-".join(each[head : len(each) - tail]) for each in parts]
