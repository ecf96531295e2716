"""Under which conditions the laws are tried."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

# Shrinking would keep Spark busy for minutes; a history is short enough to be read as it is.
QUIET = settings(
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    report_multiple_bugs=False,
)
LIMITS = (100_000, 2)  # max_driver_rows: all rows go through the driver, or hardly any
