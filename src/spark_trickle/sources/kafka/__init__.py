"""Topics of Apache Kafka, whose records are read once each, in batches."""
