"""What is computed at the driver with Arrow, without a Spark job (decision 18)."""
