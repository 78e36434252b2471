"""The shape of the checkout: what pays for package names as plain as `meter`, and what keeps one folder one idea.

Each guard is a function over a folder, tried on the checkout and on a small tree that breaks it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def package_folders(root: Path) -> set[str]:
    """Top-level folders that Python would import as a package of ours."""
    return {init.parent.name for init in root.glob("[!.]*/__init__.py")}


def pyproject(root: Path) -> dict[str, Any]:
    """The project file."""
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))


PACKAGES = sorted(package_folders(ROOT))


def origins(packages: Iterable[str], *, first_on_path: Path | None, cwd: Path) -> dict[str, str | None]:
    """Which file a fresh interpreter outside the checkout would import for each name."""
    program = (
        "import importlib.util, json, sys\n"
        "specs = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({name: spec and spec.origin for name, spec in specs.items()}))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if first_on_path is not None:
        environment["PYTHONPATH"] = str(first_on_path)
    done = subprocess.run(
        [sys.executable, "-c", program, *packages], env=environment, cwd=cwd, capture_output=True, text=True, check=True
    )
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def test_each_package_is_the_folder_of_this_checkout(tmp_path: Path) -> None:
    """Other distributions are called `meter` or `alerts` too, and site-packages wins over an editable install.

    The exact path is compared: .venv lies inside the checkout, so "below the checkout" would say nothing.
    """
    found = origins(PACKAGES, first_on_path=None, cwd=tmp_path)
    assert found == {name: str(ROOT / name / "__init__.py") for name in PACKAGES}


def test_a_package_planted_before_ours_is_seen(tmp_path: Path) -> None:
    planted = tmp_path / "planted" / "meter" / "__init__.py"
    planted.parent.mkdir(parents=True)
    planted.touch()
    assert origins(["meter"], first_on_path=tmp_path / "planted", cwd=tmp_path) == {"meter": str(planted)}


def unlisted_packages(root: Path) -> list[str]:
    """Packages that the wheel, the import contracts or the layers leave out, and listed ones that are not there."""
    project = pyproject(root)["tool"]
    linter = project["importlinter"]
    layers = next(contract["layers"] for contract in linter["contracts"] if contract["type"] == "layers")
    lists = {
        "hatch packages": set(project["hatch"]["build"]["targets"]["wheel"]["packages"]),
        "import-linter root_packages": set(linter["root_packages"]),
        "import-linter layers": {name.strip() for layer in layers for name in layer.split("|")},
    }
    folders = package_folders(root)
    return sorted(f"{place}: {name}" for place, names in lists.items() for name in names ^ folders)


def test_every_package_is_in_the_wheel_and_under_the_import_contracts() -> None:
    assert unlisted_packages(ROOT) == []


def test_a_new_folder_that_is_listed_nowhere_is_seen(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in [*PACKAGES, "refunds"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    assert [line.partition(": ")[2] for line in unlisted_packages(tmp_path)] == ["refunds"] * 3


def shadows_beside_app(folder: Path) -> list[str]:
    """What beside streamlit_app/app.py is named like a package: Streamlit puts that folder first on the path."""
    names = {*PACKAGES, *package_folders(folder.parent)}
    return sorted(entry.name for entry in folder.iterdir() if entry.stem in names)


def test_nothing_beside_the_explorers_entry_shadows_a_package() -> None:
    folder = ROOT / "streamlit_app"
    if not folder.is_dir():
        pytest.skip("there is no streamlit_app/ yet")
    assert shadows_beside_app(folder) == []


def test_a_page_named_like_a_package_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "streamlit_app"
    (folder / "views").mkdir(parents=True)
    (folder / "meter.py").touch()
    (folder / "views" / "meter.py").touch()  # harmless: only the entry's own folder is on the path
    assert shadows_beside_app(folder) == ["meter.py"]


def packages_under_tests(tests: Path) -> list[str]:
    """`__init__.py` files below tests/, which would give tests/meter the name of our meter."""
    return sorted(str(init.relative_to(tests)) for init in tests.rglob("__init__.py"))


def test_tests_are_no_packages(tmp_path: Path) -> None:
    (tmp_path / "meter").mkdir()
    (tmp_path / "meter" / "__init__.py").touch()
    assert packages_under_tests(tmp_path) == ["meter/__init__.py"]
    assert packages_under_tests(ROOT / "tests") == []


def test_the_tools_are_told_that_tests_are_no_packages() -> None:
    tool = pyproject(ROOT)["tool"]
    assert "--import-mode=importlib" in tool["pytest"]["ini_options"]["addopts"]
    assert tool["mypy"]["explicit_package_bases"] is True


def files_without_a_line(folder: Path) -> list[str]:
    """Python files that the folder's README does not name, by themselves or by their sub-folder."""
    readme = folder / "README.md"
    if not readme.is_file():
        return ["README.md"]
    named = set(re.findall(r"`([^`\s]+)`", readme.read_text("utf-8")))
    files = (file.relative_to(folder) for file in folder.rglob("*.py") if file.name != "__init__.py")
    return sorted(
        str(file) for file in files if not {str(file), *(f"{parent}/" for parent in file.parents)}.intersection(named)
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_a_folders_readme_has_a_line_for_each_file(package: str) -> None:
    assert files_without_a_line(ROOT / package) == []


def test_the_tests_have_a_readme_that_names_each_folder() -> None:
    text = (ROOT / "tests" / "README.md").read_text("utf-8")
    folders = {file.parent.name for file in (ROOT / "tests").glob("*/test_*.py")}
    assert [folder for folder in sorted(folders) if f"`{folder}/`" not in text] == []


def test_a_file_without_a_line_is_seen(tmp_path: Path) -> None:
    assert files_without_a_line(tmp_path) == ["README.md"]
    (tmp_path / "README.md").write_text("| `rating.py` | money |\n| `tables/` | columns |\n", "utf-8")
    (tmp_path / "tables").mkdir()
    for name in ("rating.py", "refunds.py", "tables/billing.py"):
        (tmp_path / name).touch()
    assert files_without_a_line(tmp_path) == ["refunds.py"]


def lock_problems(project: dict[str, Any], lock: str) -> list[str]:
    """Packages we ask for and the lock lacks, pins without a hash, and lines that name a host."""
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {_canonical(re.split(r"[\s\[<>=!~;]", each, maxsplit=1)[0]) for each in wanted}
    pins = re.split(r"\n(?=\S)", lock)
    pinned = {_canonical(pin.partition("==")[0]) for pin in pins}
    return [
        *(f"not locked: {name}" for name in sorted(names - pinned)),
        *(f"no hash: {pin.splitlines()[0]}" for pin in pins if pin.strip() and "--hash=sha256:" not in pin),
        *(f"names a host: {line}" for line in lock.splitlines() if "://" in line or line.startswith("--")),
    ]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_holds_all_we_ask_for_with_hashes_and_without_hosts() -> None:
    assert lock_problems(pyproject(ROOT), (ROOT / "requirements.lock").read_text("utf-8")) == []


def test_a_bad_lock_is_seen() -> None:
    project = {"project": {"dependencies": ["Alpha", "beta[x]>=2"]}, "dependency-groups": {"dev": ["gamma_tool"]}}
    lock = "--index-url https://mirror.example/simple\nalpha==1 \\\n    --hash=sha256:00\ngamma-tool==1\n"
    assert lock_problems(project, lock) == [
        "not locked: beta",
        "no hash: --index-url https://mirror.example/simple",
        "no hash: gamma-tool==1",
        "names a host: --index-url https://mirror.example/simple",
    ]


def test_make_help_lists_every_word_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    words = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    shown = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[1] for line in shown.stdout.splitlines()} == words
    assert words >= {"help", "setup", "check", "fix", "test", "soak", "demo", "lock", "clean"}
