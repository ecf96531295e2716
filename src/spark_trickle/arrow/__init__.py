"""Plans over few rows, evaluated at the driver with Arrow, without a Spark job (decision 18)."""
