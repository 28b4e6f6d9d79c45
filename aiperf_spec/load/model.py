"""Find the model that a run asks for."""

from dataclasses import dataclass

from aiperf_spec.client.client import Client
from aiperf_spec.client.failures import RequestFailedError
from aiperf_spec.config.redaction import Redactor
from aiperf_spec.config.server_url import Server
from aiperf_spec.config.settings import ProfileConfig
from aiperf_spec.errors import ConfigError, ServerUnavailableError
from aiperf_spec.load.readiness import listed_models
from aiperf_spec.wire.remedies import brief, is_page, remedy


@dataclass(slots=True, frozen=True)
class Model:
    """The model that is asked for, its owner, and the names of all that the server lists, to be shown."""

    name: str
    owned_by: str | None
    listed: tuple[str, ...]


async def find_model(config: ProfileConfig, server: Server, client: Client, redactor: Redactor) -> Model:
    """Return the model of `--model`, else the only one that the server lists.

    Raises `ServerUnavailableError` or `ConfigError` where that is not one; what a server answers is no matter where the
    user names the model.
    """
    asked = server.models.partition("?")[0]
    try:
        listed = listed_models(await client.ask_json(server.models))
    except RequestFailedError as failure:
        if config.model is not None:
            return Model(config.model, None, ())
        error = failure.error
        hint = remedy(error, has_key=bool(config.api_key))
        if error.status == 404 and not is_page(error):
            hint = "name the model with --model, if the path in --url is right"
        raise ServerUnavailableError(f"{asked}: {redactor.cut_text(brief(error))}", hint or None) from None
    shown = tuple(map(redactor.text, sorted(listed)))
    if config.model is not None:
        return Model(config.model, listed.get(config.model, next(iter(listed.values()), None)), shown)
    if len(listed) == 1:
        return Model(*next(iter(listed.items())), shown)
    if not listed:
        raise ServerUnavailableError(
            f"{asked} lists no model",
            "wait until the server has loaded one (--ready-timeout S), or name it with --model",
        )
    raise ConfigError(f"{asked} lists {len(listed)} models, so --model must name one: {', '.join(shown)}")
