"""The committed files are what the sources make, and what Grafana is told of them is true."""

from pathlib import Path
from typing import Any

import yaml

from dashboards.committed import FOLDER, texts, write
from settings.gputab import Settings

PROVISIONING = FOLDER.parent / "provisioning"


def test_the_committed_files_are_what_the_sources_make() -> None:
    """To the byte; `make dashboards` brings them there."""
    assert {file.name: file.read_text("utf-8") for file in FOLDER.iterdir()} == texts()


def test_the_same_sources_make_the_same_bytes() -> None:
    assert texts() == texts()
    assert all(text.endswith("}\n") and "\r" not in text for text in texts().values())


def test_only_a_file_that_differs_is_written(tmp_path: Path) -> None:
    assert write(tmp_path) == [tmp_path / name for name in texts()]
    assert write(tmp_path) == []
    (tmp_path / "fleet.json").write_text("{}", "utf-8")
    assert write(tmp_path) == [tmp_path / "fleet.json"]
    assert {file.name: file.read_text("utf-8") for file in tmp_path.iterdir()} == texts()


def provisioned(path: str) -> dict[str, Any]:
    """A provisioning file, parsed."""
    parsed: dict[str, Any] = yaml.safe_load((PROVISIONING / path).read_text("utf-8"))
    return parsed


def test_grafana_is_told_of_the_store_where_it_is_by_default() -> None:
    (source,) = provisioned("datasources/victoriametrics.yaml")["datasources"]
    assert source["url"] == Settings.model_fields["victoriametrics_url"].default
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == "1s"


def test_the_readme_copies_the_dashboards_to_where_grafana_looks() -> None:
    (provider,) = provisioned("dashboards/gputab.yaml")["providers"]
    assert provider["type"] == "file"
    readme = (FOLDER.parent / "README.md").read_text("utf-8")
    assert f"dashboards/json/*.json {provider['options']['path']}/" in readme
