"""The `deltalake` library, which is needed only to write."""

from __future__ import annotations

from typing import Any

from spark_trickle.errors import SourceSetupError


def require_deltalake() -> Any:
    """The module; reading Delta tables works without it."""
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError:
        raise SourceSetupError(
            "publishing to Delta Lake needs the library deltalake, which is not installed",
            "Install it with pip install 'spark-trickle[delta]'.",
        ) from None
    return deltalake
