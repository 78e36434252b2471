"""Which values a setting takes, from the environment and from the file."""

from pathlib import Path

import pytest

from domain.errors import InputError
from settings.gputab import Settings, load_settings


def _refusal() -> str:
    with pytest.raises(InputError) as refused:
        load_settings()
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`GPUTAB_EVIDENCE_DIR=` once put the evidence into the working directory."""
    plain = load_settings()
    monkeypatch.setenv(f"GPUTAB_{name.upper()}", "")
    assert load_settings() == plain


def test_an_empty_variable_leaves_the_files_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gputab.toml").write_text('evidence_dir = "ground"\n', "utf-8")
    monkeypatch.setenv("GPUTAB_EVIDENCE_DIR", "")
    assert load_settings().evidence_path == Path("ground")


@pytest.mark.parametrize("name", ["gputab_nod", "Gputab_Nod", "GPUTAB_NOD", "gputab_", "GPUTAB_nod"])
def test_an_unknown_name_is_an_error_in_any_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "box-1")
    assert f"{name}: unknown setting" in _refusal()


@pytest.mark.parametrize("name", ["gputab_node", "Gputab_Node", "GPUTAB_NODE"])
def test_a_known_name_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "box-1")
    assert load_settings().node == "box-1"


@pytest.mark.parametrize("text", ["1_00", " 5", "+5", "5.0", "٣", "1e2", "1e99999999", "0x10", "true"])
def test_a_count_in_the_environment_is_plain_digits(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GPUTAB_SHARE_MIN_MILLI", text)
    assert f"share_min_milli: cannot read {text!r} as a whole number" in _refusal()


@pytest.mark.parametrize("text", ["true", "5.0", "1e2", "inf", '"1_0"', "[1]"])
def test_a_count_in_the_file_is_an_integer(folder: Path, text: str) -> None:
    """To Python `true` is 1, a minute of which nobody asked for."""
    (folder / "gputab.toml").write_text(f"settle_grace_seconds = {text}\n", "utf-8")
    assert "settle_grace_seconds: " in _refusal()


def test_tomls_own_digits_are_read(folder: Path) -> None:
    (folder / "gputab.toml").write_text("settle_grace_seconds = 1_000\n", "utf-8")
    assert load_settings().settle_grace_seconds == 1_000


_PATHS = [
    name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation) and name != "evidence_dir"
]


def test_the_settings_that_are_paths_are_found() -> None:
    programs = {"victoriametrics_binary", "vmalert_binary", "vmalert_tool_binary", "alertmanager_binary"}
    folders = {"data_dir", "dcgm_bindings", "owner_records"}
    assert set(_PATHS) == {"sku_table", "victoriametrics_ca_file", *folders, *programs}


@pytest.mark.parametrize("name", _PATHS)
def test_a_url_is_no_folder_of_that_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"GPUTAB_{name.upper()}", "s3://bucket/x")
    assert f"{name}: write a path: only files and folders of this machine are supported so far" in _refusal()


@pytest.mark.parametrize("name", [*_PATHS, "evidence_dir"])
def test_an_empty_path_in_the_file_is_not_the_working_directory(folder: Path, name: str) -> None:
    (folder / "gputab.toml").write_text(f'{name} = ""\n', "utf-8")
    assert f"{name}: write a path, or leave the setting out" in _refusal()


@pytest.mark.parametrize(
    "url", ["s3://ledger", "s3://ledger/gputab", "s3://my-ledger.2026/a_b/evidence=1/x..y", "s3://ledger/.hidden"]
)
def test_evidence_may_lie_in_a_bucket(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Whether or not a slash stands at the end."""
    for written in (url, f"{url}/"):
        monkeypatch.setenv("GPUTAB_EVIDENCE_DIR", written)
        assert load_settings().evidence_path == url


def test_what_only_looks_like_a_bucket_is_a_folder(folder: Path) -> None:
    (folder / "gputab.toml").write_text('evidence_dir = "s3:/ledger"\n', "utf-8")
    assert load_settings().evidence_path == Path("s3:/ledger")


@pytest.mark.parametrize(
    "text",
    [
        '"s3://"',
        '"s3:///gputab"',
        '"s3://b"',
        '"s3://ledger//gputab"',
        '"s3://ledger/../gputab"',
        '"s3://ledger/gputab/."',
        '"s3://ledger/gpu tab"',
        '"s3://ledger?endpoint=hunter2"',
        '"s3://ledger/gputab#hunter2"',
        '"s3://key:hunter2@ledger/gputab"',
        '"gs://ledger/hunter2"',
        '"https://ledger.s3.amazonaws.com/hunter2"',
        '["s3://ledger/hunter2"]',
        "3",
    ],
)
def test_what_is_neither_folder_nor_bucket_is_refused_and_not_shown(folder: Path, text: str) -> None:
    """Somebody may have written the key and its secret into the URL, as other tools want them."""
    (folder / "gputab.toml").write_text(f"evidence_dir = {text}\n", "utf-8")
    refusal = _refusal()
    assert "evidence_dir: write a path, or a URL such as s3://bucket/gputab" in refusal
    assert "hunter2" not in refusal


@pytest.mark.parametrize("token", ["tökén", "a\u4e2d", "abc\n", "two words", "a\udcff", "\u00a0"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("GPUTAB_TOKEN", token)
    refusal = _refusal()
    assert "token: write it " in refusal
    assert token not in refusal
    assert repr(token) not in refusal


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://a..b:8428",
        "http://.a",
        f"http://{'a' * 64}.example:8428",
        f"http://{'a.' * 130}example",
        "http://[::1",
        "http://ho st",
        "http://x\u2028y",
        "http://\u00e9\u0301..x",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:port",
        "http://gputab:hunter2#x@metrics:8428",
        "http://gputab:hunter2/x@metrics:8428",
        "http://gputab:1?hunter2@metrics:8428",
        "http://metrics\udcff",
    ],
)
@pytest.mark.parametrize("name", ["victoriametrics_url", "allocator_url"])
def test_a_url_that_no_client_can_call_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    monkeypatch.setenv(f"GPUTAB_{name.upper()}", url)
    refusal = _refusal()
    assert f"{name}: write " in refusal
    assert "got " not in refusal
    assert "hunter2" not in refusal


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8428",
        "https://gputab:p%40ss%2Fword@metrics.example.org/select",
        "http://[::1]:8428",
        "http://vm_single.example.",
        "http://b\u00fccher.example:8428",
        f"http://{'a' * 63}:65535",
    ],
)
def test_a_url_that_a_client_can_call_is_taken(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    assert load_settings().victoriametrics_url == url


@pytest.mark.parametrize("name", sorted({*Settings.model_fields} - {"node"}))
def test_text_that_cannot_be_encoded_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A byte that is no UTF-8 comes out of the environment as half a surrogate pair, which no database takes."""
    monkeypatch.setenv(f"GPUTAB_{name.upper()}", "a\udcff")
    assert f"{name}: write it in UTF-8" in _refusal()


def test_a_zero_byte_in_the_file_is_refused(folder: Path) -> None:
    (folder / "gputab.toml").write_text('data_dir = "a\\u0000b"\n', "utf-8")
    assert "data_dir: leave out the zero byte" in _refusal()
