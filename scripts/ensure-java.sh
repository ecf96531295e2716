#!/usr/bin/env bash
# Checks that Spark will find Java >= 17; installs it on Debian or Ubuntu as root, else says what to install.
# ENSURE_JAVA_DRY_RUN=1 prints the commands it would run instead of running them.
set -euo pipefail

required=17

say() { printf '%s\n' "$@" >&2; }

run() {
    if [ "${ENSURE_JAVA_DRY_RUN:-}" = 1 ]; then
        echo "would run: $*"
    else
        "$@"
    fi
}

# "17.0.15" -> 17, "21" -> 21, "22-ea" -> 22, "1.8.0_392" -> 8
major_of() {
    local version=${1#1.}
    printf '%s\n' "${version%%[!0-9]*}"
}

# The major version of a java command; empty when it does not run (macOS has a stub that only prints advice).
java_major() {
    local version
    version=$("$1" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1) || true
    major_of "$version"
}

is_enough() { [ -n "$1" ] && [ "$1" -ge "$required" ]; }

describe() {
    if [ -n "$1" ]; then echo "Java $1"; else echo "no working Java"; fi
}

say_how_to_install() {
    say "Install one of these, then try again:" \
        "  Debian, Ubuntu:  sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless" \
        "                   (default-jre-headless where version 17 is not packaged)" \
        "  Fedora:          sudo dnf install -y java-latest-openjdk-headless" \
        "  macOS:           brew install openjdk@17 && export JAVA_HOME=\"\$(brew --prefix openjdk@17)\""
}

can_apt_install() {
    [ -e /etc/debian_version ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]
}

# The package to install; nothing when the release has no Java that is new enough.
apt_package() {
    local default
    # No `grep -q` here: it closes the pipe early, and pipefail would call that a failure.
    if apt-cache policy openjdk-17-jre-headless | grep 'Candidate: [0-9]' >/dev/null; then
        echo openjdk-17-jre-headless
        return
    fi
    default=$(apt-cache depends default-jre-headless | sed -n 's/.*Depends: openjdk-\([0-9]*\)-.*/\1/p' | head -n 1)
    if is_enough "$default"; then
        echo default-jre-headless
    fi
}

apt_install() {
    local package
    run apt-get update || return 1
    package=$(apt_package) || return 1
    [ -n "$package" ] || return 1
    # Slim images lack this folder, and Java's post-install step links a manual page into it.
    run mkdir -p /usr/share/man/man1
    run env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package"
}

# Spark takes JAVA_HOME before PATH, so a bad JAVA_HOME is an error even when PATH has a good Java.
if [ -n "${JAVA_HOME:-}" ]; then
    found=$(java_major "$JAVA_HOME/bin/java")
    if is_enough "$found"; then exit 0; fi
    say "Spark needs Java >= $required, but JAVA_HOME ($JAVA_HOME) has $(describe "$found")."
    if is_enough "$(java_major java)"; then
        say "The java on PATH is new enough: run \`unset JAVA_HOME\`, then try again."
    else
        say "Point JAVA_HOME at a newer Java, or unset it."
        say_how_to_install
    fi
    exit 1
fi

found=$(java_major java)
if is_enough "$found"; then exit 0; fi

say "Spark needs Java >= $required; found $(describe "$found")."
if ! can_apt_install; then
    say_how_to_install
    exit 1
fi

if ! apt_install; then
    say "The installation with apt-get failed."
    say_how_to_install
    exit 1
fi
if [ "${ENSURE_JAVA_DRY_RUN:-}" = 1 ]; then exit 0; fi

hash -r
found=$(java_major java)
if ! is_enough "$found"; then
    say "Java was installed, but the java on PATH is still too old ($(describe "$found"))." \
        "Choose the new one with \`update-alternatives --config java\`, or set JAVA_HOME."
    exit 1
fi
