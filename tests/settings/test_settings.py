"""Settings: who wins, and that every mistake is reported at once, without a secret."""

from pathlib import Path

import pytest

from domain.errors import InputError
from gputab.composition import sample_store
from settings.gputab import Settings, load_settings


def _write(folder: Path, text: str) -> None:
    (folder / "gputab.toml").write_text(text, "utf-8")


def _problems() -> str:
    with pytest.raises(InputError) as refused:
        load_settings()
    message = str(refused.value)
    assert "\n" not in message
    assert message.startswith("cannot use the settings: ")
    assert message.endswith("See docs/settings.md for every name and its meaning")
    return message


def test_every_setting_has_a_default_and_a_description() -> None:
    settings = load_settings()
    assert settings.database_url == "sqlite:///.gputab/gputab.db"
    assert all(field.description for field in Settings.model_fields.values())


def test_servers_are_on_loopback_unless_somebody_says_otherwise() -> None:
    settings = load_settings()
    urls = {name: value for name, value in settings.model_dump().items() if name.endswith("_url")}
    assert set(urls) >= {"victoriametrics_url", "allocator_url"}
    assert all("127.0.0.1" in url for name, url in urls.items() if name != "database_url")


def test_arguments_win_over_the_environment_which_wins_over_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(folder, 'node = "file"\nsettle_grace_seconds = 1\nsettle_deadline_hours = 2\n')
    monkeypatch.setenv("GPUTAB_NODE", "environment")
    monkeypatch.setenv("GPUTAB_SETTLE_GRACE_SECONDS", "3")
    settings = load_settings(node="argument", settle_grace_seconds=None)
    assert (settings.node, settings.settle_grace_seconds, settings.settle_deadline_hours) == ("argument", 3, 2)


def test_the_file_is_the_one_of_the_working_directory(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(folder, 'node = "here"\n')
    assert load_settings().node == "here"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert load_settings().node != "here"


def test_an_unknown_key_is_an_error_in_the_file(folder: Path) -> None:
    _write(folder, 'datbase_url = "sqlite:///x.db"\n[victoria]\nurl = "x"\n')
    message = _problems()
    assert "datbase_url: unknown setting" in message
    assert "victoria: unknown setting" in message


def test_an_unknown_key_is_an_error_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTAB_DATBASE_URL", "sqlite:///x.db")
    assert "GPUTAB_DATBASE_URL: unknown setting" in _problems()


def test_all_problems_are_reported_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(folder, 'colour = "red"\nshare_min_milli = 1001\nqueue_max_mib = "much"\n')
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", "localhost:8428")
    monkeypatch.setenv("GPUTAB_NODE", "a node")
    monkeypatch.setenv("GPUTAB_NOD", "x")
    message = _problems()
    for problem in (
        "GPUTAB_NOD: unknown setting",
        "colour: unknown setting",
        "share_min_milli: Input should be less than or equal to 1000 (got 1001)",
        "queue_max_mib: ",
        "victoriametrics_url: write a URL that begins with http:// or https://",
        "node: cannot use 'a node' as a node",
    ):
        assert problem in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SETTLE_GRACE_SECONDS", "-1"),
        ("SETTLE_GRACE_SECONDS", "1.5"),
        ("SETTLE_DEADLINE_HOURS", "0"),
        ("SHARE_MIN_MILLI", "-1"),
        ("SHARE_MIN_VRAM_MIB", "0"),
        ("NODE", " "),
    ],
)
def test_a_value_out_of_range_is_quoted_with_its_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"GPUTAB_{name}", value)
    message = _problems()
    assert f"{name.lower()}: " in message
    assert repr(value) in message


@pytest.mark.parametrize("text", ["node = \n", "node = 'a'\nnode = 'b'\n", "[node\n"])
def test_a_file_that_is_no_toml_is_named(folder: Path, text: str) -> None:
    _write(folder, text)
    assert "gputab.toml: " in _problems()


def test_what_stands_in_the_files_place_is_not_passed_over(folder: Path) -> None:
    """A folder of that name, or a link that leads nowhere: somebody meant to set something."""
    (folder / "gputab.toml").mkdir()
    assert "gputab.toml: is no file; remove it, or write one of that name" in _problems()
    (folder / "gputab.toml").rmdir()
    (folder / "gputab.toml").symlink_to("nowhere.toml")
    assert "gputab.toml: is no file" in _problems()


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    """Nobody can read another process's memory at address 0, the administrator included."""
    (folder / "gputab.toml").symlink_to("/proc/self/mem")
    assert "gputab.toml: [Errno 5] Input/output error" in _problems()


def test_a_file_in_another_encoding_is_named(folder: Path) -> None:
    (folder / "gputab.toml").write_bytes(b'node = "\xe9"\n')
    assert "gputab.toml: " in _problems()


@pytest.mark.parametrize(
    "text",
    [
        'token = ["hunter2"]\n',
        "token = {value = 'hunter2'}\n",
        'database_url = ["postgresql://gputab:hunter2@db/gputab"]\n',
        "[database_url]\nurl = 'hunter2'\n",
        'victoriametrics_url = "ftp://gputab:hunter2@metrics"\n',
        'allocator_url = "gputab:hunter2@allocator"\n',
        'tokens = "hunter2"\n',
        'token = "hunter2"\nnode = ""\n',
    ],
)
def test_no_message_repeats_a_secret(folder: Path, text: str) -> None:
    _write(folder, text)
    assert "hunter2" not in _problems()


def test_no_message_repeats_a_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTAB_TOKN", "hunter2")
    monkeypatch.setenv("GPUTAB_TOKEN", "hunter2")
    assert "hunter2" not in _problems()


def test_a_token_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTAB_TOKEN", "hunter2")
    settings = load_settings()
    assert settings.token is not None
    assert settings.token.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def test_settings_cannot_be_changed_after_they_were_read() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.node = "other"


def test_urls_lose_their_last_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", "http://127.0.0.1:1/")
    assert load_settings().victoriametrics_url == "http://127.0.0.1:1"


def test_evidence_lies_in_the_data_folder_unless_it_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTAB_DATA_DIR", "/srv/gputab")
    assert load_settings().evidence_path == Path("/srv/gputab/evidence")
    monkeypatch.setenv("GPUTAB_EVIDENCE_DIR", "/mnt/evidence")
    assert load_settings().evidence_path == Path("/mnt/evidence")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://metrics.example:8428", "let 'victoriametrics_url' begin with https://"),
        ("http://10.0.0.1:8428", "let 'victoriametrics_url' begin with https://"),
        ("https://reader:hunter2@metrics.example", "leave one of them out"),
        ("http://reader:hunter2@127.0.0.1:8428", "leave one of them out"),
    ],
)
def test_a_token_for_the_store_that_could_be_read_or_would_not_be_sent_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str, problem: str
) -> None:
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_TOKEN", "s3cret")
    message = _problems()
    assert "victoriametrics_token: " in message
    assert problem in message
    assert "s3cret" not in message
    assert "hunter2" not in message


@pytest.mark.parametrize("url", ["https://metrics.example", "http://127.0.0.1:8428", "http://[::1]:8428"])
def test_over_tls_or_to_this_machine_it_is_taken(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_TOKEN", "s3cret")
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_CA_FILE", "ca.pem")
    settings = load_settings()
    address = sample_store(settings)
    assert (address.url, address.token, address.ca_file) == (url, "s3cret", Path("ca.pem"))
    assert "s3cret" not in repr(settings) + repr(address)


def test_an_empty_token_for_the_store_is_none(folder: Path) -> None:
    _write(folder, 'victoriametrics_url = "http://metrics.example"\nvictoriametrics_token = ""\n')
    assert sample_store(load_settings()).token is None
