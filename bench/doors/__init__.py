"""What the benchmarks of a door share: ours and other makers' servers under the same load, one after the other."""
