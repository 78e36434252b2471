#!/bin/sh
# Ask the cards of this machine what the collector has to know of them, in under three minutes and without a network:
#   scripts/gpu_check.sh [--out FILE]
# PYTHON names an interpreter that has what gputab needs; without it, that of .venv.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if ! "$python" -c 'import pynvml, httpx, typer, prometheus_client' 2>/dev/null; then
    echo "cannot run: '$python' lacks gputab's libraries; run 'make setup' where there is a network, or set PYTHON" >&2
    exit 1
fi
exec "$python" -m scripts.gpu_check "$@"
