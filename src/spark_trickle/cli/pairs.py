"""name=value on the command line -> settings."""

from __future__ import annotations

from spark_trickle.errors import SettingError


def settings_of(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(pair, "write it as name=value")
        found[name.strip().lower()] = value.strip()
    return found
