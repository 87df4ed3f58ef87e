"""A partitioned, durable event log behind four doors: AMQP 1.0, RabbitMQ Streams, HTTP and Spark."""

__all__ = ["__version__"]

__version__ = "0.1.0"
