#!/usr/bin/env bash
# from-debian.sh FOLDER PACKAGE FILE: prints the path of a file of a Debian package, unpacked into FOLDER.
# It needs no root: nothing is installed.
set -euo pipefail

folder=${1:?give the folder where the file may be unpacked}
package=${2:?give the name of the package}
file=${3:?give the path of the file in the package}
unpacked=$folder/${file##*/}

say() { printf '%s\n' "$@" >&2; }

found() {
    printf '%s\n' "$unpacked"
    exit 0
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
    cd "$1" && { apt-get "${quick[@]}" download "$package" ||
        { own_lists "$1" && apt-get "${quick[@]}" "${own[@]}" download "$package"; }; }
}

quick=(-q -o Acquire::Retries=1 -o Acquire::http::Timeout=20)

if [ -e "$unpacked" ]; then found; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    say "Without apt-get and dpkg the package \"$package\" cannot be fetched."
    exit 1
fi

mkdir -p "$folder"
work=$(mktemp -d "$folder/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
work=$(cd "$work" && pwd)

if ! (download "$work") >&2; then
    say "apt-get could not download the package \"$package\"."
    exit 1
fi
if ! dpkg -x "$work/$package"_*.deb "$work/unpacked" >&2 || ! [ -f "$work/unpacked/$file" ]; then
    say "The package \"$package\" was downloaded, but there is no $file in it."
    exit 1
fi
# In one step, so that nobody ever finds half of it.
mv "$work/unpacked/$file" "$unpacked"
found
