"""The stream door: RabbitMQ Streams clients on the logs of a store."""
