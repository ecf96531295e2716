#!/usr/bin/env bash
# ensure-promtool.sh FOLDER: prints the path of a promtool that runs: the one on PATH, or Debian's, unpacked into FOLDER.
# It needs no root: nothing is installed.
set -euo pipefail

folder=${1:?give the folder where promtool may be unpacked}
unpacked=$folder/promtool

say() { printf '%s\n' "$@" >&2; }

runs() { "$1" --version >/dev/null 2>&1; }

found() {
    printf '%s\n' "$1"
    exit 0
}

say_how_to_install() {
    say "Install Prometheus, which brings promtool, and put it on PATH:" \
        "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install -y prometheus" \
        "  macOS:           brew install prometheus" \
        "  others:          https://prometheus.io/download"
}

# Package lists of our own, for where the system has none, or old ones, and only root could renew them.
own_lists() {
    mkdir -p "$1/state/lists/partial" "$1/cache/archives/partial"
    own=(-o "Dir::State=$1/state" -o "Dir::State::lists=$1/state/lists" -o "Dir::Cache=$1/cache"
        -o "Dir::State::status=/var/lib/dpkg/status")
    apt-get "${quick[@]}" "${own[@]}" update
}

# apt-get puts the package into the folder it is called from.
download() {
    cd "$1" && { apt-get "${quick[@]}" download prometheus ||
        { own_lists "$1" && apt-get "${quick[@]}" "${own[@]}" download prometheus; }; }
}

quick=(-q -o Acquire::Retries=1 -o Acquire::http::Timeout=20)

if command -v promtool >/dev/null && runs promtool; then found "$(command -v promtool)"; fi
if runs "$unpacked"; then found "$unpacked"; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    say "There is no promtool on PATH, and without apt-get and dpkg none can be fetched."
    say_how_to_install
    exit 1
fi

mkdir -p "$folder"
work=$(mktemp -d "$folder/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd)

if ! (download "$work") >&2; then
    say "There is no promtool on PATH, and apt-get could not download the package \"prometheus\"."
    say_how_to_install
    exit 1
fi
if ! dpkg -x "$work"/prometheus_*.deb "$work/unpacked" >&2 || ! runs "$work/unpacked/usr/bin/promtool"; then
    say "The package \"prometheus\" was downloaded, but its promtool does not run."
    say_how_to_install
    exit 1
fi
# In one step, so that nobody ever finds half of it.
mv "$work/unpacked/usr/bin/promtool" "$unpacked"
found "$unpacked"
