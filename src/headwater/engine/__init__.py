"""Control state, pure: commands in, effects out; no clock and no I/O.

What consumers have taken and settled is kept in one way, for durable termini, topic subscriptions and consumer groups:

    shell (server/)          Subscriptions                Groups                   commands: attach, leave, deal, settle
      │    ▲                   └ TopicSubscription          └ Group                effects:  Granted, Refused, Put, ...
      │    │                        └────────┬──────────────────┘
      │    │                             CursorSet          one cursor for each partition
      │    │                                 │
      │    └── what waited ── CursorFlushes ─┴─ Cursor      settled, unsettled, due: ranges
      │                            │
      └── append to `$state` <─────┘                        cursor_record, subscription_record, group_record

A call gives the list of its effects; the shell carries them out in their order, once, and answers a peer when the
`Put`s before the answer are durable. Consumers and members are whatever names a link to the shell.
"""
