#!/usr/bin/env bash
# ensure-promtool.sh FOLDER: prints the path of a promtool that runs: the one on PATH, or Debian's, unpacked into FOLDER.
# It needs no root: nothing is installed.
set -euo pipefail

folder=${1:?give the folder where promtool may be unpacked}

say() { printf '%s\n' "$@" >&2; }

runs() { "$1" --version >/dev/null 2>&1; }

if command -v promtool >/dev/null && runs promtool; then
    command -v promtool
    exit 0
fi
if unpacked=$("$(dirname "$0")/from-debian.sh" "$folder" prometheus usr/bin/promtool) && runs "$unpacked"; then
    printf '%s\n' "$unpacked"
    exit 0
fi
say "There is no promtool on PATH, and none that runs could be fetched." \
    "Install Prometheus, which brings promtool, and put it on PATH:" \
    "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install -y prometheus" \
    "  macOS:           brew install prometheus" \
    "  others:          https://prometheus.io/download"
exit 1
