"""The configuration of a run, read back from its folder."""

from aiperf_spec.artifacts import names
from aiperf_spec.artifacts.read.folders import RunFolder
from aiperf_spec.config.choices import ExportLevel
from aiperf_spec.config.settings import ProfileConfig, ReportSettings, create_settings
from aiperf_spec.config.yaml_file import parse_config
from aiperf_spec.errors import ConfigError


def own_config(folder: RunFolder) -> tuple[ProfileConfig, ReportSettings] | None:
    """Return what the run was told; None where its folder does not say, or says what no run can be told."""
    text = folder.configuration
    if not text:
        return None
    try:
        # What the environment held then is not needed to say what was run.
        values = parse_config(text, str(folder.path / names.CONFIG_YAML), lambda _: "unset", folder.path)
        level = ExportLevel.RECORDS if folder.has_records else ExportLevel.SUMMARY
        return create_settings({**values, "export_level": level})
    except ConfigError:
        return None
