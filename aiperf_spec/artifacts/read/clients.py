"""Check that folders are those of one run's several clients before they are made one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from aiperf_spec.analysis.clusters import measured
from aiperf_spec.artifacts.read.configuration import own_config
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.config.option import PROMPTS
from aiperf_spec.config.option_table import OPTIONS
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.config.several_clients import Share
from aiperf_spec.errors import SpecProfileError
from aiperf_spec.models.clients import Client, Clients
from aiperf_spec.models.run import Notice, NoticeKind, RequestRecord

_EACH_OWN = frozenset(
    {"share", "start_at", "concurrency", "workers", "artifact_dir", "overwrite", "export_level"}
    | {"server_metrics", "server_metrics_url", "input_file", "ca_file", "ready_timeout", "keep_going"}
)
"""What each client may be told by itself: how it sends its requests, and where things are on its machine."""
_SPLIT_BY_HAND = frozenset({"request_rate", "request_count", "warmup_request_count", "random_seed"})
"""What differs too where clients have no shares, besides their prompts."""
_LISTED = 5


class ClientsError(SpecProfileError):
    """Refuse to make one run of folders that are none."""


def check_clients(folders: Sequence[RunFolder]) -> list[Notice]:
    """Return what is to be said before the folders of clients are made one run.

    Raises `ClientsError` where clients with shares were no single run: a share is there twice, they are shares of
    different runs, or their settings differ. Clients without shares may be anything that the user takes for one run.
    """
    shares = {folder.name: share for folder in folders if (share := share_of(folder)) is not None}
    if not shares:
        apart = "; ".join(_apart(folders, _EACH_OWN | _SPLIT_BY_HAND, of_prompts=False)) if len(folders) > 1 else ""
        return [Notice(NoticeKind.CLIENTS_DIFFER, {"text": apart})] if apart else []
    if without := [folder.name for folder in folders if folder.name not in shares]:
        first = next(iter(shares))
        raise ClientsError(
            f"{first!r} is share {shares[first]} of a run, and {without[0]!r} has no share",
            "give the folders of one run's clients, or leave out --pool",
        )
    _check_whole(shares)
    if apart := "; ".join(_apart(folders, _EACH_OWN, of_prompts=True)):
        raise ClientsError(
            f"the clients ran with different settings: {apart}",
            "give the folders of one run's clients, or leave out --pool",
        )
    missing = Clients(tuple(Client(name, share, 0, None, None) for name, share in shares.items())).missing
    if not missing:
        return []
    listed = ", ".join(map(str, missing[:_LISTED])) + (", ..." if len(missing) > _LISTED else "")
    return [Notice(NoticeKind.SHARES_MISSING, {"count": len(missing), "of": missing[0].count, "shares": listed})]


def _check_whole(shares: dict[str, Share]) -> None:
    by_share = defaultdict(list)
    for name, share in shares.items():
        by_share[share].append(name)
    (first, (one, *_)), *others = by_share.items()
    for share, names in by_share.items():
        if len(names) > 1:
            raise ClientsError(
                f"{names[0]!r} and {names[1]!r} are both share {share}: their requests would count twice",
                "give the folders of one run",
            )
    for share, (other, *_) in others:
        if share.count != first.count:
            raise ClientsError(
                f"{one!r} is share {first} and {other!r} is share {share}: not of the same run",
                "give the folders of one run",
            )


def share_of(folder: RunFolder) -> Share | None:
    """Return the client's share, by its summary, of a killed run by its configuration; None where it had none."""
    if (told := folder.described.share) is not None:
        return told
    if folder.summary is not None or (own := own_config(folder)) is None or own[0].share is None:
        return None
    return own[0].client_share


def _apart(folders: Sequence[RunFolder], own: frozenset[str], *, of_prompts: bool) -> Iterator[str]:
    configs = {folder.name: found[0] for folder in folders if (found := own_config(folder)) is not None}
    for name in ProfileConfig.model_fields:
        option = OPTIONS[name]
        if name in own or (option.panel == PROMPTS and not of_prompts):
            continue
        if (differing := _first_two(configs, name)) is None:
            continue
        flag = option.names[0].partition("/")[0]
        (one, before), (other, after) = differing
        values = "" if option.secret else f" {_shown(before)} in {one} and {_shown(after)} in {other}"
        yield f"{flag}{values}" if values else f"{flag} differs between {one} and {other}"
    hashes = {folder.name: tuple(folder.described.prompt_file_hashes) for folder in folders if folder.summary}
    if of_prompts and len(set(hashes.values())) > 1:
        first = next(iter(hashes))
        other = next(name for name, found in hashes.items() if found != hashes[first])
        yield f"the content of --input-file differs between {first} and {other}"


def _first_two(configs: dict[str, ProfileConfig], name: str) -> tuple[tuple[str, Any], tuple[str, Any]] | None:
    values = [(client, getattr(config, name)) for client, config in configs.items()]
    return next(((values[0], each) for each in values[1:] if each[1] != values[0][1]), None)


def _shown(value: Any) -> str:
    return "not given" if value in (None, ()) else str(value)


def clients_of(folders: Sequence[RunFolder], records: Sequence[Sequence[RequestRecord]]) -> Clients:
    """Return what each folder adds to the run that they make together, from its records."""
    found = []
    for folder, of_client in zip(folders, records, strict=True):
        good = measured(of_client)
        start_ns = min((record.start_ns for record in good), default=None)
        end_ns = max((record.end_ns for record in good), default=None)
        found.append(Client(folder.name, share_of(folder), len(good), start_ns, end_ns, folder.described.clock))
    return Clients(tuple(found))
