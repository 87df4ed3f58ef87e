"""Fuzzing: any bytes parse, or raise the one error class of their parser."""
