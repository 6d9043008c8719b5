"""Adapters to the world outside: HTTP, Kafka, sinks, remote payload storage, secrets. Each is imported when it is asked for."""
