"""What runs are called beside each other."""

from __future__ import annotations

from aiperf_spec.analysis.labels import labels

MADE_UP = ["20261201T053528Z-tinycode-chat-c2", "20261201T061500Z-tinycode-chat-c2"]


def test_folders_that_somebody_named_keep_their_names() -> None:
    assert labels(["before", "after"], [{"k": "k 5"}, {"k": "k 5"}]) == ["before", "after"]
    assert labels(["before", "after"], [{"k": "k 3"}, {"k": "k 5"}]) == ["before, k 3", "after, k 5"]


def test_folders_that_nobody_named_are_told_by_what_differs() -> None:
    properties = [{"server": "vLLM", "k": "k 3"}, {"server": "vLLM", "k": "k 5"}]
    assert labels(MADE_UP, properties) == ["k 3", "k 5"]
    assert labels(MADE_UP, [{"k": "k 3"}, {}]) == ["k 3", "20261201T061500Z"]


def test_where_nothing_differs_the_whole_time_stands() -> None:
    assert labels(MADE_UP, [{"k": "k 3"}] * 2) == ["20261201T053528Z", "20261201T061500Z"]


def test_no_two_labels_are_alike() -> None:
    names = ["a/run", "b/run", *MADE_UP, "run"]
    found = labels(names, [{"k": f"k {i % 2}"} for i in range(5)])
    assert len(set(found)) == 5
    assert labels([], []) == []
    assert labels(["one"], [{"k": "k 3"}]) == ["one"]
