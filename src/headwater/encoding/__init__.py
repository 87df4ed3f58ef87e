"""Byte layouts and the loops over them: chunks, keys, and the kernels."""
