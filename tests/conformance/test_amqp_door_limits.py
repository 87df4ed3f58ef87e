"""The limits of the AMQP door: each comes from its setting, and how often failures are told has one too."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from headwater.amqp.definitions import Condition, Role
from headwater.amqp.messaging import Rejected, Source, Target
from headwater.server.amqp.door import make_amqp_door
from headwater.server.amqp.limits import Limits
from headwater.server.config import Settings
from tests.conformance.amqp_listening import ListeningAmqp
from tests.conformance.amqp_wire import data, transfer
from tests.failing_files import FailingFiles


@pytest.mark.clause("AMQP harm 7")
def test_the_settings_are_the_limits_of_the_door(tmp_path: Path) -> None:
    settings = Settings(
        amqp_connections_max=7,
        amqp_frame_bytes_max=8_192,
        amqp_credit_count=9,
        amqp_idle_timeout_s=11.0,
        amqp_handshake_timeout_s=12.0,
        sasl_failure_delay_s=0.25,
        auto_create_partitions=3,
        auto_create_pattern="made-.*",
    )
    with ListeningAmqp(tmp_path / "data") as listening:
        door = listening.call(
            lambda: make_amqp_door(
                listening.store,
                listening._access,
                listening._sasl,
                listening._loop,
                settings,
                listening.amqp.consumers,
            )
        )
        limits = door.limits
        assert limits.connections_max == 7
        assert limits.frame_size_bytes_max == door.machine_limits.frame_size_bytes_max == 8_192
        assert limits.credit_count == 9
        assert (limits.idle_timeout_s, door.machine_limits.idle_time_out_ms) == (11.0, 5_500)
        assert (limits.step_timeout_s, limits.failure_delay_s) == (12.0, 0.25)
        listening.amqp.nodes = door.nodes
        with listening.connect() as wire:
            wire.sender("made-here")
            assert len(listening.store.log("made-here").partitions) == 3
            wire.refused(Condition.NOT_FOUND, Role.SENDER, Source(), Target("elsewhere"), handle=1)


@pytest.mark.clause("AMQP harm 7")
@pytest.mark.parametrize(("every_s", "lines"), [(3_600.0, 1), (0.0, 5)])
def test_a_partition_that_fails_is_told_of_once_in_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, every_s: float, lines: int
) -> None:
    files = FailingFiles()
    limits = Limits(failure_told_every_s=every_s)
    with ListeningAmqp(tmp_path / "data", limits, files=files) as door, door.connect() as wire:
        wire.sender("orders")
        wire.publish([data(b"x")])
        files.sync_error = errno.EIO
        with caplog.at_level(logging.ERROR, "headwater.amqp"):
            for number in range(1, 6):
                wire.send(transfer(number, data(b"x")))
                (state,) = wire.outcomes([number]).values()
                assert isinstance(state, Rejected)
        told = [each for each in caplog.records if each.name == "headwater.amqp" and "orders" in each.message]
        assert len(told) == lines
