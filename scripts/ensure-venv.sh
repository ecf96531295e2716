#!/usr/bin/env bash
# ensure-venv.sh PYTHON FOLDER: makes a virtual environment with Python >= 3.11, or says what is missing.
# ENSURE_VENV_DRY_RUN=1 prints the commands it would run instead of running them.
set -euo pipefail

python=$1
folder=$2

say() { printf '%s\n' "$@" >&2; }

run() {
    if [ "${ENSURE_VENV_DRY_RUN:-}" = 1 ]; then
        echo "would run: $*"
    else
        "$@"
    fi
}

if ! command -v "$python" >/dev/null; then
    say "\"$python\" is not on PATH. Install Python >= 3.11, or name it: make PYTHON=/path/to/python3 …"
    exit 1
fi

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "spark-trickle needs Python >= 3.11, but \"$python\" is Python $version." \
        "Install a newer one and name it: make PYTHON=python3.12 …"
    exit 1
fi

# Debian and Ubuntu package ensurepip, which venv needs, apart from Python itself.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ -e /etc/debian_version ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
        run apt-get update
        run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-venv
    else
        say "Python $version lacks the modules venv and ensurepip." \
            "On Debian or Ubuntu: sudo apt-get update && sudo apt-get install -y python3-venv"
        exit 1
    fi
fi

run "$python" -m venv "$folder"
