"""Any Kafka cluster as a log to read: batches as its brokers store them, by topic id, without a consumer group."""
