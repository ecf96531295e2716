"""Stream tables told to topics of Apache Kafka: each refresh is one transaction there."""
