"""A private Kafka broker, and the producer that sends messages to a topic."""
