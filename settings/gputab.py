"""Every setting of gputab: `gputab.toml` in the working directory, overridden by `GPUTAB_*` in the environment."""

import os
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from domain.errors import InputError
from domain.slugs import check_name

CONFIG_FILE = Path("gputab.toml")
_PREFIX = "GPUTAB_"
# Values that may hold a password or a token; messages never repeat them.
_SECRET = ("token", "database_url", "victoriametrics_url", "allocator_url")


class Settings(BaseSettings):
    """What an operator may set. Times are seconds, URLs have no trailing slash."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, toml_file=CONFIG_FILE, extra="forbid", frozen=True, validate_default=True
    )

    database_url: str = Field("sqlite:///.gputab/gputab.db", description="the ledger: SQLite, or PostgreSQL")
    victoriametrics_url: str = Field("http://127.0.0.1:8428", description="where samples are kept")
    allocator_url: str = Field("http://127.0.0.1:8470", description="where `gputab alloc` and collectors call")
    token: SecretStr | None = Field(None, description="the bearer token of this person, node or program")
    node: str = Field(default_factory=lambda: os.uname().nodename, description="this machine's name")
    data_dir: Path = Field(Path(".gputab"), description="queue, evidence and unpacked programs")
    evidence_dir: Path | None = Field(None, description="frozen evidence; default DATA_DIR/evidence")
    sku_table: Path | None = Field(None, description="a TOML file of SKUs that replaces the built-in table")
    victoriametrics_binary: Path | None = Field(None, description="the victoria-metrics program to start")
    settle_grace_seconds: int = Field(30, ge=0, description="how long after its end a window may settle")
    settle_deadline_hours: int = Field(72, ge=1, description="when a window settles whatever is missing")
    share_min_milli: int = Field(100, ge=0, le=1000, description="smallest share of a card; 0: sold whole only")
    share_min_vram_mib: int = Field(1024, ge=1, description="smallest VRAM share of a card")
    queue_max_mib: int = Field(1024, ge=1, description="how much disk the collector's queue may take")

    @field_validator("victoriametrics_url", "allocator_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("write a URL that begins with http:// or https://")
        return url.rstrip("/")

    @field_validator("node")
    @classmethod
    def _check_node(cls, node: str) -> str:
        try:
            return check_name("node", node)
        except InputError as error:
            raise ValueError(str(error)) from error

    @property
    def evidence_path(self) -> Path:
        """The folder of frozen evidence."""
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
    try:
        settings = Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        problems += [_describe(detail) for detail in error.errors()]
    except ValueError as error:  # the TOML file itself does not parse
        problems.append(f"{CONFIG_FILE}: {error}")
    else:
        if not problems:
            return settings
    raise InputError(
        f"cannot use the settings: {'; '.join(problems)}. See docs/settings.md for every name and its meaning"
    )


def _is_unknown(name: str) -> bool:
    return name.startswith(_PREFIX) and name.removeprefix(_PREFIX).lower() not in Settings.model_fields


def _describe(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{place}: unknown setting"
    got = "" if place in _SECRET else f" (got {detail['input']!r})"
    return f"{place}: {detail['msg'].removeprefix('Value error, ')}{got}"
