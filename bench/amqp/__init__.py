"""The AMQP door beside RabbitMQ's plugin and a broker on Qpid Proton: the same load on all, one after the other."""
