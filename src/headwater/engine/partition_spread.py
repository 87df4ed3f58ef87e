"""Partitions over members: evenly, and moving as few as that takes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

__all__ = ["spread"]

M = TypeVar("M", bound=Hashable)


def spread(members: Sequence[M], owners: Mapping[int, M | None]) -> dict[int, M]:
    """Who is to have each partition, by who has it now; no two members differ by more than one.

    Members that have most keep most, so that a partition moves only when somebody has too little. Whoever gets some
    gets the first ones in the order of `owners`.
    """
    if not members:
        return {}
    has: dict[M, list[int]] = {member: [] for member in members}
    free = []
    for partition, owner in owners.items():
        if owner is not None and owner in has:
            has[owner].append(partition)
        else:
            free.append(partition)
    share, more = divmod(len(owners), len(members))
    ranked = sorted(members, key=lambda member: -len(has[member]))
    quota = {member: share + (rank < more) for rank, member in enumerate(ranked)}
    for member in ranked:
        free += has[member][quota[member] :]
        del has[member][quota[member] :]
    place = {partition: at for at, partition in enumerate(owners)}
    free.sort(key=lambda partition: place[partition], reverse=True)
    for member in members:
        while len(has[member]) < quota[member]:
            has[member].append(free.pop())
    return {partition: member for member, partitions in has.items() for partition in partitions}
