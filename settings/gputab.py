"""Every setting of gputab: `gputab.toml` in the working directory, overridden by `GPUTAB_*` in the environment."""

import os
import reprlib
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from domain.errors import InputError
from settings.evidence_place import EvidencePlace
from settings.values import LocalPath, NodeName, ServerUrl, Token, Whole, check_text, check_token_goes_to

CONFIG_FILE = Path("gputab.toml")
_PREFIX = "GPUTAB_"
# Values that may hold a password or a token; messages never repeat them.
_SECRET = (
    "token",
    "victoriametrics_token",
    "database_url",
    "victoriametrics_url",
    "allocator_url",
    "alertmanager_url",
    "evidence_dir",
)


class Settings(BaseSettings):
    """What an operator may set. Times are seconds, URLs have no trailing slash."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        # `GPUTAB_EVIDENCE_DIR=` is how a shell or a unit file takes a setting back.
        env_ignore_empty=True,
        toml_file=CONFIG_FILE,
        extra="forbid",
        frozen=True,
        validate_default=True,
    )

    database_url: str = Field("sqlite:///.gputab/gputab.db", description="the ledger: SQLite, or PostgreSQL")
    victoriametrics_url: ServerUrl = Field("http://127.0.0.1:8428", description="where samples are kept")
    victoriametrics_token: Token | None = Field(None, description="the bearer token that VictoriaMetrics asks for")
    victoriametrics_ca_file: LocalPath | None = Field(
        None, description="certificates that VictoriaMetrics' own must descend from; default the system's"
    )
    allocator_url: ServerUrl = Field("http://127.0.0.1:8470", description="where `gputab alloc` and collectors call")
    alertmanager_url: ServerUrl = Field("http://127.0.0.1:9093", description="where vmalert sends alerts")
    token: Token | None = Field(None, description="the bearer token of this person, node or program")
    node: NodeName = Field(default_factory=lambda: os.uname().nodename, description="this machine's name")
    data_dir: LocalPath = Field(Path(".gputab"), description="queue, evidence and unpacked programs")
    evidence_dir: EvidencePlace | None = Field(
        None, description="frozen evidence: a folder, or s3://BUCKET/PREFIX; default DATA_DIR/evidence"
    )
    sku_table: LocalPath | None = Field(None, description="a TOML file of SKUs that replaces the built-in table")
    victoriametrics_binary: LocalPath | None = Field(None, description="the victoria-metrics program to start")
    vmalert_binary: LocalPath | None = Field(None, description="the vmalert program to start")
    vmalert_tool_binary: LocalPath | None = Field(None, description="the vmalert-tool that runs the rules' unit tests")
    alertmanager_binary: LocalPath | None = Field(None, description="the Alertmanager program to start")
    settle_grace_seconds: Whole = Field(30, ge=0, description="how long after its end a window may settle")
    settle_deadline_hours: Whole = Field(72, ge=1, description="when a window settles whatever is missing")
    share_min_milli: Whole = Field(100, ge=0, le=1000, description="smallest share of a card; 0: sold whole only")
    share_min_vram_mib: Whole = Field(1024, ge=1, description="smallest VRAM share of a card")
    queue_max_mib: Whole = Field(1024, ge=1, description="how much disk the collector's queue may take")
    owner_records: LocalPath = Field(Path("/run/gputab/owners"), description="records of whose a container is")
    dcgm_bindings: LocalPath = Field(
        Path("/usr/share/datacenter-gpu-manager-4/bindings/python3"), description="DCGM's own Python bindings"
    )
    queue_max_hours: Whole = Field(72, ge=1, description="for how long a second waits in the collector's queue")
    driver_gone_exit_seconds: Whole | None = Field(
        None, ge=1, description="for how long a collector waits for a driver that is gone; default for ever"
    )
    metrics_port: Whole = Field(9478, ge=0, le=65_535, description="the collector's own page on loopback; 0: none")

    @field_validator("*", mode="before")
    @classmethod
    def _check_text(cls, value: Any) -> Any:
        return check_text(value)

    @field_validator("victoriametrics_token")
    @classmethod
    def _check_where_it_goes(cls, token: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
        if token is not None and token.get_secret_value() and "victoriametrics_url" in others.data:
            check_token_goes_to(others.data["victoriametrics_url"])
        return token

    @property
    def evidence_path(self) -> Path | str:
        """The folder of frozen evidence, as text where it is the URL of one in a bucket."""
        return self.evidence_dir or self.data_dir / "evidence"

    @property
    def programs_path(self) -> Path:
        """The folder of unpacked server programs."""
        return self.data_dir / "programs"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, which wins over the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(**overrides: Any) -> Settings:
    """The settings of this process; InputError lists every problem at once, an unknown key being one."""
    problems = [f"{name}: unknown setting" for name in sorted(os.environ) if _is_unknown(name)]
    if (CONFIG_FILE.exists() or CONFIG_FILE.is_symlink()) and not CONFIG_FILE.is_file():
        # pydantic takes that for no file at all.
        problems.append(f"{CONFIG_FILE}: is no file; remove it, or write one of that name")
    try:
        settings = Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        problems += [_describe(detail) for detail in error.errors()]
    except (OSError, ValueError, RecursionError) as error:  # the TOML file itself cannot be read, or does not parse
        problems.append(f"{CONFIG_FILE}: {error}")
    else:
        if not problems:
            return settings
    raise InputError(
        f"cannot use the settings: {'; '.join(problems)}. See docs/settings.md for every name and its meaning"
    )


def _is_unknown(name: str) -> bool:
    # pydantic reads a name in any case, so one that it would not know in any case is unknown.
    return name.upper().startswith(_PREFIX) and name[len(_PREFIX) :].lower() not in Settings.model_fields


def _describe(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{place}: unknown setting"
    value = detail["input"]
    shown = repr(value) if isinstance(value, str) else reprlib.repr(value)  # a table may be of any depth
    got = "" if place in _SECRET else f" (got {shown})"
    return f"{place}: {detail['msg'].removeprefix('Value error, ')}{got}"
