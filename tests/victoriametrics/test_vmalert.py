"""vmalert's command line: where it listens, whom it asks, and who may see its passwords."""

from pathlib import Path

from victoriametrics.store_address import StoreAddress
from victoriametrics.vmalert import command, write_secrets


def words(folder: Path, store: StoreAddress | str, notifier: str = "http://127.0.0.1:9093") -> list[str]:
    """The command line for these servers."""
    return command(
        binary=Path("/x/vmalert"),
        port=1,
        rules=[Path("a.yaml"), Path("b.yaml")],
        victoriametrics=store,
        alertmanager_url=notifier,
        secrets_dir=folder,
    )


def test_it_listens_on_loopback_and_reads_what_it_wrote(tmp_path: Path) -> None:
    found = words(tmp_path, "http://store:8428")
    assert found[0] == "/x/vmalert"
    assert {
        "-rule=a.yaml",
        "-rule=b.yaml",
        "-httpListenAddr=127.0.0.1:1",
        "-rule.evalDelay=0s",
        "-datasource.queryStep=5m",
    } <= set(found)
    for name in ("datasource", "remoteWrite", "remoteRead"):
        assert f"-{name}.url=http://store:8428" in found
    assert "-notifier.url=http://127.0.0.1:9093" in found
    assert not any("basicAuth" in word for word in found)


def test_a_password_is_in_a_file_of_its_owner_and_not_in_the_list_of_processes(tmp_path: Path) -> None:
    store, notifier = "http://reader:p%40ss@store:8428", "http://poster:other@pages:9093"
    secrets = tmp_path / "secrets"
    write_secrets(store, notifier, secrets_dir=secrets)
    found = words(secrets, store, notifier)
    assert not any("p@ss" in word or "p%40ss" in word or "other" in word for word in found)
    for name, user, password in (("datasource", "reader", "p@ss"), ("notifier", "poster", "other")):
        assert f"-{name}.basicAuth.username={user}" in found
        (file,) = (word.partition("=")[2] for word in found if word.startswith(f"-{name}.basicAuth.passwordFile="))
        assert Path(file).read_text("utf-8") == password
        assert Path(file).stat().st_mode & 0o777 == 0o600
    assert "-remoteWrite.url=http://store:8428" in found
    assert "-remoteRead.basicAuth.username=reader" in found


def test_a_token_is_in_such_a_file_too_and_certificates_are_named(tmp_path: Path) -> None:
    store = StoreAddress("https://store:8428", "s3cret", Path("/x/ca.pem"))
    write_secrets(store, "http://127.0.0.1:9093", secrets_dir=tmp_path)
    found = words(tmp_path, store)
    assert not any("s3cret" in word for word in found)
    for name in ("datasource", "remoteWrite", "remoteRead"):
        (file,) = (word.partition("=")[2] for word in found if word.startswith(f"-{name}.bearerTokenFile="))
        assert Path(file).read_text("utf-8") == "s3cret"
        assert Path(file).stat().st_mode & 0o777 == 0o600
        assert f"-{name}.tlsCAFile=/x/ca.pem" in found
    assert not any("notifier.bearer" in word or "notifier.tls" in word for word in found)
