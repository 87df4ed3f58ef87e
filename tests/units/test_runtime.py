"""The server inside one process: its states from start to stop, and the timer that keeps retention."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import FolderInUse, SyncFailed
from headwater.log.partition import PartitionState
from headwater.log.store import Store
from headwater.server.config import Settings
from headwater.server.health import DataHealth
from headwater.server.listening import ListenFailed
from headwater.server.runtime import Server


def settings_for(folder: Path, **changes: object) -> Settings:
    free_ports = {"http_port": 0, "stream_port": 0, "amqp_port": 0}
    return Settings(data=folder / "data", retention_interval_s=0.01, **free_ports, **changes)  # type: ignore[arg-type]


def test_states_follow_its_life(tmp_path: Path) -> None:
    async def life() -> list[str]:
        server = Server(settings_for(tmp_path))
        states = [server.state]
        assert server.health().data is None
        await server.start()
        states.append(server.state)
        assert server.health().data is not None
        await server.stop()
        return [*states, server.state]

    assert asyncio.run(life()) == ["starting", "ready", "stopping"]


def test_a_partition_that_stops_while_it_serves_is_told_by_its_health(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def life() -> tuple[str, DataHealth | None]:
        server = Server(settings_for(tmp_path))
        await server.start()
        store = stores[0]
        partition = store.create_log("log").partitions[0]
        partition.stop(SyncFailed(partition.folder), PartitionState.READ_ONLY)
        told = server.state, server.health().data
        await server.stop()
        return told

    stores: list[Store] = []
    open_store = Store.open

    def note(*arguments: Any, **names: Any) -> Store:
        stores.append(open_store(*arguments, **names))
        return stores[-1]

    monkeypatch.setattr(Store, "open", note)
    assert asyncio.run(life()) == ("degraded", DataHealth(1, 1, 0, 1))


def test_a_door_that_cannot_open_leaves_the_folder_free(tmp_path: Path) -> None:
    async def fail_then_start() -> None:
        failing = Server(settings_for(tmp_path, host="192.0.2.1"))
        with pytest.raises(ListenFailed):
            await failing.start()
        await failing.stop()
        server = Server(settings_for(tmp_path))
        await server.start()
        await server.stop()

    asyncio.run(fail_then_start())


def test_a_folder_in_use_is_left_to_its_holder(tmp_path: Path) -> None:
    async def start_twice() -> None:
        first, second = Server(settings_for(tmp_path)), Server(settings_for(tmp_path))
        await first.start()
        with pytest.raises(FolderInUse):
            await second.start()
        await second.stop()
        assert first.state == "ready"
        await first.stop()

    asyncio.run(start_twice())


def test_retention_goes_on_after_a_round_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []

    def fail(_store: Store) -> None:
        rounds.append(len(rounds))
        raise OSError("no such luck")

    async def two_rounds() -> None:
        server = Server(settings_for(tmp_path))
        await server.start()
        async with asyncio.timeout(10):
            while len(rounds) < 2:
                await asyncio.sleep(0.01)
        assert server.state == "ready"
        await server.stop()

    monkeypatch.setattr(Store, "enforce_retention", fail)
    asyncio.run(two_rounds())
    assert rounds[:2] == [0, 1]
