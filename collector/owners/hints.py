"""What the environment of a process says of where it belongs: shown to a person, and no proof, since who runs the
process writes it."""

from pathlib import Path

# No other variable is looked at: an environment holds passwords.
NAMES = (
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_JOB_USER",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "POD_NAME",
    "POD_NAMESPACE",
    "CONTAINER_NAME",
    "container",
    "HOSTNAME",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)
_CHARACTERS_MAX = 128
_READ_BYTES = 1 << 20


def hints(pid: int, proc: Path = Path("/proc")) -> dict[str, str]:
    """Those of NAMES that the process was started with, cut to 128 printable characters.

    Empty where it has none, has ended or may not be looked into.
    """
    try:
        with (proc / str(pid) / "environ").open("rb") as file:
            text = file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return {}
    told = dict(line.split("=", 1) for line in reversed(text.split("\0")) if "=" in line)
    return {name: _shown(told[name]) for name in NAMES if told.get(name)}


def _shown(value: str) -> str:
    """No sign that a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in value[:_CHARACTERS_MAX])
