"""Say what is wrong with a command line in the words and the style of every other error."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import typer

from aiperf_spec.cli.help import HelpGroup
from aiperf_spec.config.server_url import without_secrets
from aiperf_spec.errors import ConfigError, SpecProfileError

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://.*|localhost(:\d+)?(/.*)?|[\w.-]+:\d+(/.*)?|\d+(\.\d+){3}(/.*)?|\[.*\].*")
_RUNS = frozenset({"run", "profile", "bench", "benchmark", "serve", "test"})
"""What other programs call the command that makes a run; ours has none."""
_OUR_NAMES = {
    "--url": "base-url endpoint target host port server urls api-base",
    "--model": "model-name model-names served-model-name",
    "--endpoint-type": "backend request-format api-type",
    "--request-rate": "rate qps rps request-rps",
    "--arrival-pattern": "burstiness rate-type request-rate-mode",
    "--concurrency": "max-concurrency num-concurrent parallel users",
    "--request-count": "num-requests requests max-requests",
    "--warmup-request-count": "num-warmups warmup warmup-requests num-warmup-requests",
    "--benchmark-duration": "duration max-seconds max-duration",
    "--request-timeout-seconds": "timeout request-timeout",
    "--ready-timeout": "wait wait-for-ready ready-check-timeout-sec",
    "--max-error-rate": "max-errors max-failures",
    "--input-file": "dataset dataset-path dataset-name prompts prompt-file data public-dataset",
    "--custom-dataset-type": "dataset-type data-type",
    "--dataset-sampling-strategy": "shuffle sampling disable-shuffle",
    "--num-prompts": "num-prompt num-dataset-entries num-conversations max-samples",
    "--max-tokens": "output-len random-output-len output-tokens-mean osl max-completion-tokens",
    "--extra-inputs": "ignore-eos top-p top-k min-p stop extra-body extra-request-body",
    "--header": "headers extra-header",
    "--api-key": "key token openai-api-key",
    "--random-seed": "seed",
    "--no-streaming": "disable-stream no-stream",
    "--streaming": "stream",
    "--artifact-dir": "result-dir output-dir output-artifact-dir save-result result-filename output-path out",
    "--export-level": "profile-export-level save-detailed output-details",
    "--workers": "num-workers workers-max max-workers processes",
    "--ui": "ui-type disable-tqdm no-progress progress",
    "--require": "gate assert",
    "--server-metrics-url": "metrics-url server-metric-url",
    "--insecure": "no-verify verify-ssl skip-tls-verify",
}
"""Options of ours, and what AIPerf, the engines' own benchmarks, GuideLLM or plain English call them."""
_OTHER_NAMES = {f"--{name}": ours for ours, names in _OUR_NAMES.items() for name in names.split()}


class CommandGroup(HelpGroup):
    """The command: errors of its command line are a line or two, as all others."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """Run the command and leave with its exit code; `help` and `help COMMAND` show help."""
        given = list(sys.argv[1:] if args is None else args)
        if given[:1] == ["help"]:
            given = [*given[1:2], "--help"]
        options["standalone_mode"] = False
        try:
            code = super().main(given, *more, **options)
        except SpecProfileError as error:
            _leave(error)
        except typer.Abort:
            code = 1
        except Exception as error:
            # Whichever of its versions is installed, typer's errors are of a class that only it can name.
            if not hasattr(error, "format_message"):
                raise
            _leave(usage_error(error))
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names; raise `ConfigError` where none is named so."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise _no_such_command(args[0], list(self.commands))
        return super().resolve_command(ctx, args)


def _leave(error: SpecProfileError) -> None:
    from aiperf_spec.cli.terminal import show_error

    show_error(error)
    sys.exit(error.exit_code)


def _no_such_command(name: str, commands: Sequence[str]) -> ConfigError:
    if _ADDRESS.fullmatch(name):
        shown = without_secrets(name)
        return ConfigError(f"{shown!r} is an address, and no command: --url takes it", f"spec-profile --url {shown}")
    if name in _RUNS:
        return ConfigError(f"there is no command {name!r}: a run needs none", "spec-profile --url URL --model NAME")
    near = get_close_matches(name, commands, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(commands)}"
    return ConfigError(f"there is no command {name!r}", remedy)


def refuse_options_before(context: typer.Context) -> None:
    """Raise `ConfigError` for an option that stands before a command, which would not read it."""
    command = context.invoked_subcommand
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            name = parameter.opts[-1] if parameter.opts[-1].startswith("--") else parameter.opts[0]
            raise ConfigError(
                f"{name} stands before {command}, which does not read it", f"spec-profile {command} ... {name}"
            )


def usage_error(error: Any) -> ConfigError:
    """Return one of typer's errors as ours."""
    from pydantic import ValidationError

    from aiperf_spec.config.problems import problem_text

    context, text = getattr(error, "ctx", None), _plain(str(error.message))
    path = "spec-profile" if context is None else context.command_path
    see_help = f"{path} --help shows what there is"
    if (option := getattr(error, "option_name", None)) and hasattr(error, "possibilities"):
        return ConfigError(f"there is no option {option}", _near(option, context) or see_help)
    if option:
        return ConfigError(f"{option} needs a value", see_help)
    parameter = getattr(error, "param", None)
    if parameter is None:
        return ConfigError(text, see_help)
    name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.name
    if isinstance(cause := error.__cause__, ValidationError):
        problem = cause.errors()[0]
        value = "" if problem["type"] == "value_error" else f" {problem['input']!r}"
        return ConfigError(f"{name}{value}: {problem_text(problem)}")
    # An argument or an option that must be given has no text of its own.
    return ConfigError(f"{name}: {text}" if text else f"{name} is missing", None if text else see_help)


def _near(option: str, context: Any) -> str | None:
    parameters = [] if context is None else context.command.params
    known = [name for each in parameters for name in (*each.opts, *each.secondary_opts) if name.startswith("--")]
    if (ours := _OTHER_NAMES.get(option)) is not None:
        return f"it is {ours} here" if ours in known else None
    near = get_close_matches(option, known, n=2)
    return f"did you mean {' or '.join(near)}?" if near else None


def _plain(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
