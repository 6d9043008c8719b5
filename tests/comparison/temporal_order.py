"""Temporal, Python SDK: its time-skipping test server, a worker for each test, activities replaced by ones of the same name."""
# mypy: ignore-errors

import os
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

from parts import part
from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

CHARGE = {
    "start_to_close_timeout": timedelta(minutes=5),
    "retry_policy": RetryPolicy(
        initial_interval=timedelta(seconds=2), backoff_coefficient=2, maximum_interval=timedelta(hours=1), maximum_attempts=21
    ),
}
SHIP = {
    "start_to_close_timeout": timedelta(seconds=2),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=60), maximum_attempts=3),
}


@workflow.defn(sandboxed=False)  # the sandbox imports this file again, tests and all
class Order:
    def __init__(self):
        self.approved = False

    @workflow.signal
    def approve(self):
        self.approved = True

    @workflow.run
    async def run(self, order: str) -> str:
        await workflow.execute_activity("charge", order, **CHARGE)
        await workflow.sleep(timedelta(days=30))
        try:
            await workflow.wait_condition(lambda: self.approved, timeout=timedelta(days=7))
        except TimeoutError:
            await workflow.execute_activity("cancel", order, **CHARGE)
            return "cancelled"
        await workflow.execute_activity("ship", order, **SHIP)
        return "shipped"


class Shop:
    """The activities, scripted by hand."""

    def __init__(self, failures=20):
        self.failures, self.charged, self.shipped, self.cancelled = failures, [], 0, 0

    @activity.defn
    async def charge(self, order: str) -> None:
        self.charged.append(activity.info().attempt)
        if len(self.charged) <= self.failures:
            raise RuntimeError("no")

    @activity.defn
    async def ship(self, order: str) -> None:
        self.shipped += 1

    @activity.defn
    async def cancel(self, order: str) -> None:
        self.cancelled += 1

    @property
    def activities(self):
        return [self.charge, self.ship, self.cancel]


def server():
    return WorkflowEnvironment.start_time_skipping(test_server_existing_path=os.environ.get("TEMPORAL_TEST_SERVER"))


def worker(env, shop, **options):
    return Worker(env.client, task_queue="orders", workflows=[Order], activities=shop.activities, **options)


async def started(env):
    return await env.client.start_workflow(Order.run, "o-1", id=str(uuid4()), task_queue="orders")


@part
async def retries():
    async with await server() as env, worker(env, shop := Shop()):
        began = await env.get_current_time()
        handle = await started(env)
        await env.sleep(timedelta(hours=20))
        assert shop.charged == list(range(1, 22))
        history = await handle.fetch_history()
        (charged,) = [one for one in history.events if one.HasField("activity_task_started_event_attributes")]
        took = charged.event_time.ToDatetime().timestamp() - began.replace(tzinfo=None).timestamp()
        assert abs(took - sum(min(2**n, 3600) for n in range(1, 21))) < 60


@part
async def month():
    async with await server() as env, worker(env, Shop(failures=0)):
        began = await env.get_current_time()
        handle = await started(env)
        assert await handle.result() == "cancelled"
        assert await env.get_current_time() - began >= timedelta(days=37)


@part
async def race():
    async with await server() as env, worker(env, shop := Shop(failures=0)):
        handle = await started(env)
        await env.sleep(timedelta(days=34))
        await handle.signal(Order.approve)
        assert await handle.result() == "shipped"
        assert await (await started(env)).result() == "cancelled"
        assert (shop.shipped, shop.cancelled) == (1, 1)


@part
async def lost_worker():
    """Time stands still while an activity runs: the 2 s of the timeout pass for real."""

    class Dying(Shop):
        @activity.defn
        async def ship(self, order: str) -> None:
            self.shipped += 1
            if self.shipped == 1:
                activity.raise_complete_async()  # nobody ever completes it

        charge, cancel = Shop.charge, Shop.cancel

    async with await server() as env, worker(env, shop := Dying(failures=0)):
        handle = await started(env)
        await env.sleep(timedelta(days=34))
        await handle.signal(Order.approve)
        assert await handle.result() == "shipped"
        assert shop.shipped == 2


@part
async def crash():
    """A worker that dies between two workflow tasks; the server cannot be killed, for it keeps everything in memory."""
    async with await server() as env:
        async with worker(env, shop := Shop(), max_cached_workflows=0):
            handle = await started(env)
            await env.sleep(timedelta(hours=20))
        async with worker(env, shop, max_cached_workflows=0):
            await env.sleep(timedelta(days=33))
            await handle.signal(Order.approve)
            assert await handle.result() == "shipped"
        assert (len(shop.charged), shop.shipped) == (21, 1)


@part
async def twice():
    class Reported(Shop):
        @activity.defn
        async def ship(self, order: str) -> None:
            self.shipped, self.token = self.shipped + 1, activity.info().task_token
            activity.raise_complete_async()

        charge, cancel = Shop.charge, Shop.cancel

    async with await server() as env, worker(env, shop := Reported(failures=0)):
        handle = await started(env)
        await env.sleep(timedelta(days=34))
        await handle.signal(Order.approve)
        await handle.signal(Order.approve)
        while not shop.shipped:
            await env.sleep(timedelta(milliseconds=100))
        report = env.client.get_async_activity_handle(task_token=shop.token)
        await report.complete(None)
        with suppress(RPCError):
            await report.complete(None)
        assert await handle.result() == "shipped"
