"""Tenant shares: one tenant leaves room for others, waiters are served in turn, nothing leaks."""

import asyncio
import random

import pytest

from tracereel_collector.errors import ThrottledError
from tracereel_collector.runtime.tenant_shares import SharePolicy, TenantShares


def several(share=0.5, refused=None):
    return SharePolicy(
        share=share,
        has_several_tenants=lambda: True,
        on_refused=lambda *what: refused is not None and refused.append(what),
    )


def taken(shares, tenant):
    """Take everything a tenant can get; return how much that was."""
    count = 0
    while True:
        try:
            shares.take(tenant)
        except ThrottledError:
            return count
        count += 1


@pytest.mark.parametrize(("total", "share", "most"), [(2, 0.5, 1), (8, 0.75, 6), (64, 0.5, 32)])
def test_tenant_takes_at_most_its_share(total, share, most):
    assert taken(TenantShares("slots", total, several(share)), "noisy") == most


def test_each_further_busy_tenant_finds_a_part_of_the_rest():
    shares = TenantShares("slots", 64, several())

    assert [taken(shares, name) for name in "abcdefg"] == [32, 16, 8, 4, 2, 1, 1]


def test_last_of_a_few_slots_is_kept_for_a_tenant_that_has_none():
    shares = TenantShares("slots", 4, several())
    shares.take("quiet")

    assert [taken(shares, name) for name in ("noisy", "quiet", "third")] == [2, 0, 1]


@pytest.mark.parametrize("policy", [SharePolicy(), several(share=1.0)])
def test_single_tenant_may_take_everything(policy):
    assert taken(TenantShares("slots", 3, policy), "only") == 3


def test_refusal_names_and_counts_its_reason():
    refused = []
    shares = TenantShares("sql_statements", 2, several(refused=refused))
    shares.take("a")
    with pytest.raises(ThrottledError, match="this tenant has 1 of 2 sql statements"):
        shares.take("a")
    shares.take("b")
    with pytest.raises(ThrottledError, match="2 sql statements are in use"):
        shares.take("c")

    assert refused == [("sql_statements", "share"), ("sql_statements", "full")]


def test_bytes_of_a_tenant_stay_within_its_share():
    shares = TenantShares("bytes", 1000, several())
    shares.take("a", 400)
    with pytest.raises(ThrottledError):
        shares.take("a", 101)
    shares.take("a", 100)
    shares.take("b", 250)

    shares.give_back("a", 500)
    assert (shares.held_by("a"), shares.used) == (0, 250)


def test_waiting_tenants_are_served_in_turn():
    async def run():
        shares = TenantShares("slots", 1, several())
        shares.take("first")
        order = []

        async def one(tenant):
            async with shares.waited(tenant, seconds=60):
                order.append(tenant)

        waiting = []
        for tenant in ("noisy", "noisy", "noisy", "quiet"):
            waiting.append(asyncio.create_task(one(tenant)))
            await asyncio.sleep(0)
        shares.give_back("first")
        await asyncio.gather(*waiting)
        assert shares.used == 0
        return order

    assert asyncio.run(run()) == ["noisy", "quiet", "noisy", "noisy"]


def test_waiter_whose_time_is_over_is_refused_and_forgotten():
    async def run():
        shares = TenantShares("slots", 1)
        shares.take("a")
        with pytest.raises(ThrottledError):
            await shares.wait("b", seconds=0.001)
        shares.give_back("a")
        return shares

    shares = asyncio.run(run())
    assert (shares.used, shares._held, dict(shares._waiting)) == (0, {}, {})


def test_cancelled_waiters_leave_nothing_behind():
    """Cancelled before, while and after their turn comes."""

    async def run(seed):
        dice = random.Random(seed)
        shares = TenantShares("slots", 3, several())
        most = 0

        async def one(tenant):
            nonlocal most
            async with shares.waited(tenant, seconds=60):
                most = max(most, shares.used)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(one(dice.choice("abc"))) for _ in range(60)]
        while not all(task.done() for task in tasks):
            dice.choice(tasks).cancel()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        return shares, most

    for seed in range(20):
        shares, most = asyncio.run(run(seed))
        assert most <= 3
        assert (shares.used, shares._held, dict(shares._waiting)) == (0, {}, {})
