"""The node `$management` of the AMQP door: what can be asked of it, and how requests and responses come and go."""
