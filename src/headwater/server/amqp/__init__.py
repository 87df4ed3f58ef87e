"""The AMQP door: sockets, nodes, and what links do to logs; the protocol itself is `headwater.amqp`."""
