"""The partitioned, durable log: files, segments, commits, recovery, readers, retention."""
