"""How a server drafts, by its own word."""

from dataclasses import dataclass, replace

from aiperf_spec.models.acceptance import SpecDecodeAcceptanceRecord


@dataclass(slots=True, frozen=True, kw_only=True)
class ServerDrafter:
    """What a server's page of settings says of its drafter; None where it does not say.

    An engine's responses may leave out the draft length, and may give a number of proposed drafts that it computed from
    its settings and did not count (SGLang does both). `completed` adds to a record what the settings tell of that.
    """

    engine: str
    """The adapter's name for the engine."""
    method: str | None
    """None where the server runs without a drafter."""
    depth: int | None = None
    """Draft tokens in a row."""
    branches: int | None = None
    """Draft tokens at each depth: 1 makes a chain, more a tree."""
    verified: int | None = None
    """Tokens that a step verifies: those of the draft, and the one before them."""
    adaptive: bool = False
    """Whether the draft length changes as the server runs."""
    bonus_tokens: int = 1
    """Tokens that a verify step gives beside the accepted ones of its draft."""
    overlaps: bool = True
    """Whether it may begin a step before it knows which requests the last one ended: counters of steps that run then
    hold one too many for each request."""
    drafts_chains: bool = False
    """Whether the method drafts token by token, so that a single branch is a chain."""

    @property
    def draft_length(self) -> int | None:
        """Return k where it is fixed and records then show the shape: a chain, or a tree of more tokens than depth."""
        if self.adaptive or self.verified is None or not self.drafts_chains:
            return None
        if self.branches == 1:
            return self.verified - 1
        return self.depth if self.depth and self.verified - 1 > self.depth else None

    def completed(self, record: SpecDecodeAcceptanceRecord) -> SpecDecodeAcceptanceRecord:
        """Return the record with its draft length, and with what is known of its count of proposed drafts."""
        if record.engine != self.engine or record.num_spec_tokens is not None:
            return record
        expected = None if self.verified is None else record.num_spec_steps * (self.verified - 1)
        fits = expected in (None, record.num_draft_tokens)
        counted = record.proposed_counted and fits and not self.adaptive
        k, deepest = self.draft_length, max(record.acceptance_histogram, default=0)
        known = k if counted and k is not None and deepest <= k else None
        return replace(record, num_spec_tokens=known, proposed_counted=counted)
