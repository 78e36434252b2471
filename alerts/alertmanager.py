"""The command of an Alertmanager on loopback that stands alone.

Which program to run is `machine.programs.ALERTMANAGER`; an older one is refused there by the flag it lacks.
"""

from pathlib import Path

from machine.relocation import start_words


def command(*, binary: Path, port: int, config: Path, data_dir: Path) -> list[str]:
    """The command line of an Alertmanager with one port, on loopback, and no other.

    `config` is what `alerts.routes` renders. Silences, and what was notified, are kept in `data_dir`.
    """
    return [
        *start_words(binary),
        f"--config.file={config.absolute()}",
        f"--storage.path={data_dir.absolute()}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.external-url=http://127.0.0.1:{port}",
        # Empty, or it would open port 9094 to every network, for a cluster it is not part of.
        "--cluster.listen-address=",
    ]
