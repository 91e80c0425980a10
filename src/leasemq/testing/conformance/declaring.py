"""Capabilities: declared as data, kept where they are declared, refused where they are not."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.backend import Backend
from leasemq.errors import Unsupported
from leasemq.protocol.insight import Durability
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import LEASE_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.conformance.store import Store


@pytest.mark.promise("P-90")
async def test_capabilities_name_the_backend_its_server_and_its_durability(backend: Backend) -> None:
    capabilities = await backend.prepare()

    assert capabilities.backend
    assert capabilities.server
    assert capabilities.store_id
    assert capabilities.durability in Durability


@pytest.mark.promise("P-90", "A-38")
async def test_preparing_again_changes_nothing(queue: QueueUnderTest) -> None:
    await queue.enqueue("j")
    first = await queue.backend.prepare()

    assert await queue.backend.prepare() == first
    assert await queue.claim_ids() == ["j"]


@pytest.mark.promise("P-90", "A-38")
async def test_many_views_prepare_at_once(store: Store, backend: Backend) -> None:
    views = [store.open_backend() for _ in range(5)]
    store.opened.extend(views)

    answers = await asyncio.gather(*(view.prepare() for view in views))

    assert len({answer.store_id for answer in answers}) == 1


@pytest.mark.promise("P-90")
async def test_a_store_that_processes_share_is_one_store_on_every_view(
    queue: QueueUnderTest, second: Backend
) -> None:
    if not (await queue.backend.prepare()).processes:
        pytest.skip("left out: the backend does not declare processes")

    assert second is not queue.backend
    assert (await second.prepare()).store_id == (await queue.backend.prepare()).store_id
    await queue.enqueue("j")
    assert (await second.counts(queue.name)).waiting == 1


@pytest.mark.promise("P-90")
async def test_joining_a_transaction_is_refused_where_it_is_not_declared(backend: Backend) -> None:
    if (await backend.prepare()).transactions:
        pytest.skip("left out: the backend declares transactions, which other tests show")

    with pytest.raises(Unsupported):
        backend.joined(object())
    with pytest.raises(Unsupported):
        async with backend.transaction(blocks=False, idle_ms=LEASE_MS):
            pass


@pytest.mark.promise("P-90")
async def test_exchange_is_refused_where_it_is_not_declared(queue: QueueUnderTest) -> None:
    if (await queue.backend.prepare()).exchange:
        pytest.skip("left out: the backend declares exchange, which other tests show")

    with pytest.raises(Unsupported):
        await queue.backend.exchange(queue.name, [], 1, LEASE_MS, builders.claimant())


@pytest.mark.promise("P-90")
async def test_closing_twice_is_closing(store: Store, backend: Backend) -> None:
    extra = await store.open()
    if extra is backend:
        pytest.skip("left out: the backend is one object, which the other tests close twice")

    await extra.close()
    await extra.close()
