"""Measurements, run by hand or by `make bench`."""
