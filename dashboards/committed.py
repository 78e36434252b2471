"""The dashboards as the JSON files that are committed, which Grafana loads."""

from pathlib import Path

from dashboards.fleet import fleet

FOLDER = Path(__file__).parent / "json"


def texts() -> dict[str, str]:
    """What each file is to hold, by its name."""
    return {"fleet.json": fleet().text()}


def write(folder: Path = FOLDER) -> list[Path]:
    """Bring the files to the sources, each at once and whole; those that differed."""
    changed = []
    for name, text in texts().items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            whole = path.with_suffix(".new")
            whole.write_text(text, "utf-8")
            whole.replace(path)
            changed.append(path)
    return changed
