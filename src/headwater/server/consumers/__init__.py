"""What consumers have taken and settled: the engine's commands and effects, carried out on `$state` and on links."""
