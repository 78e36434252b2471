"""vmalert's command line: where it listens, whom it asks, and who may see its passwords."""

from pathlib import Path

from victoriametrics.vmalert import command, write_passwords


def words(folder: Path, store: str, notifier: str = "http://127.0.0.1:9093") -> list[str]:
    """The command line for these servers."""
    return command(
        binary=Path("/x/vmalert"),
        port=1,
        rules=[Path("a.yaml"), Path("b.yaml")],
        victoriametrics_url=store,
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
    write_passwords(store, notifier, secrets_dir=secrets)
    found = words(secrets, store, notifier)
    assert not any("p@ss" in word or "p%40ss" in word or "other" in word for word in found)
    for name, user, password in (("datasource", "reader", "p@ss"), ("notifier", "poster", "other")):
        assert f"-{name}.basicAuth.username={user}" in found
        (file,) = (word.partition("=")[2] for word in found if word.startswith(f"-{name}.basicAuth.passwordFile="))
        assert Path(file).read_text("utf-8") == password
        assert Path(file).stat().st_mode & 0o777 == 0o600
    assert "-remoteWrite.url=http://store:8428" in found
    assert "-remoteRead.basicAuth.username=reader" in found
