"""Why a figure is missing: typed values, which `render` words."""

from __future__ import annotations

from enum import StrEnum


class Missing(StrEnum):
    """Name why a figure or its interval is not given."""

    TOO_FEW = "n_too_small"
    """Fewer independent requests (conversations) than an interval needs."""
    TOO_FEW_FOR_RANK = "n_too_small_for_percentile"
    """Fewer requests than an interval of this percentile needs: its ends would lie outside all of them."""
    NO_RECORDS = "no_records"
    """No request has what the figure is made of."""
    NO_INTERVAL = "one_number_a_run"
    """The figure is one number a run: a single run says nothing of how it scatters."""
    DRAFT_LENGTH_UNKNOWN = "draft_length_unknown"
    """The engine reports neither k nor what each step proposed."""
    SHORT_DRAFTS = "short_drafts"
    """Some steps proposed fewer than k tokens, and the record does not say which."""
    MIXED_DRAFT_LENGTHS = "mixed_draft_lengths"
    """Requests of one run have different k."""
    NOT_A_CHAIN = "not_a_chain"
    """More tokens proposed in a step than positions that could be accepted: a tree."""
    LOOKS_LIKE_A_TREE = "looks_like_a_tree"
    """Acceptance ends abruptly at a depth short of k, as a tree's does."""
    UNKNOWN_DRAFTER = "unknown_drafter"
    """The engine's adapter does not say that its drafts are chains."""
    NONE_AT_RISK = "none_at_risk"
    """No step reached, and proposed, as many tokens."""
    NO_PER_STEP = "no_per_step_data"
    """The engine reports no figures of single steps."""
    NO_TIMES = "no_times"
    """Without streaming, or without token counts, there is no time between tokens."""
    DIFFERENT_SHAPES = "different_drafter_shapes"
    """Rates of drafters that propose differently do not compare."""
    NO_BASELINE = "no_baseline"
    """Nothing to compare with was given."""
    NOT_IN_BOTH = "not_in_both_runs"
    """One of the runs does not have the metric."""
