"""Transactions: a coordinator is told from a target, and a state of a transaction from those of a delivery."""

from __future__ import annotations

import pytest

from headwater.amqp.performatives import Attach, Disposition, decode_performative
from headwater.amqp.transactions import Coordinator
from headwater.encoding.amqp_types import Described, Symbol, Ulong
from tests.amqp_material import laid_out


@pytest.mark.clause("AMQP 4.5")
def test_an_attach_to_a_coordinator_shows_it() -> None:
    capability = "a317" + b"amqp:local-transactions".hex()
    data = bytes.fromhex(
        laid_out(0x12, "a1016c", "43", "42", "40", "40", "40", laid_out(0x30, capability), "40", "40", "43")
    )
    attach, _ = decode_performative(data, 0, len(data))
    assert isinstance(attach, Attach)
    assert attach.target == Coordinator((Symbol("amqp:local-transactions"),))


@pytest.mark.clause("AMQP 4.5")
def test_a_state_of_a_transaction_is_none_of_a_delivery() -> None:
    state = laid_out(0x34, "a00131", "00532445")
    data = bytes.fromhex(laid_out(0x15, "42", "43", "40", "42", state))
    disposition, _ = decode_performative(data, 0, len(data))
    assert isinstance(disposition, Disposition)
    assert disposition.state == Described(Ulong(0x34), [b"1", Described(Ulong(0x24), [])])
