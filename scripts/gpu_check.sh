#!/bin/sh
# Ask the cards of this machine what the collector has to know of them, in under three minutes and without a network:
#   scripts/gpu_check.sh [--out FILE]
# PYTHON names an interpreter that has what gputab needs; without it, that of .venv.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
limit_s=170
if ! "$python" -c 'import pynvml, httpx, typer, prometheus_client' 2>/dev/null; then
    echo "cannot run: '$python' lacks gputab's libraries; run 'make setup' where there is a network, or set PYTHON" >&2
    exit 1
fi
code=0
# In the foreground, so that Ctrl-C reaches it.
timeout --foreground --kill-after=5 "$limit_s" "$python" -m scripts.gpu_check "$@" || code=$?
# 124 is that of one that was told to end, 137 of one that was killed.
if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
    echo "cannot check any card: no end after $limit_s s, as where a call of the driver hangs; see dmesg" >&2
    exit 1
fi
exit "$code"
