"""Expenses that somebody has to approve: the engine inside a Starlette application.

    pip install starlette uvicorn
    uvicorn --app-dir examples/web_approval --factory app:create_app

The engine is driven by a thread that lives as long as the application. A WAIT task without an end stands for the person;
the POST of the decision completes it. Nothing is lost when the application is stopped in between.
"""

import contextlib
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from conductorlite import (
    Engine,
    ExecutionNotFound,
    ResultTimeout,
    TaskResult,
    TaskStatus,
    Workers,
    WorkflowDef,
    WorkflowFailed,
    WorkflowStatus,
)

EXPENSE = WorkflowDef.from_json(Path(__file__).with_name("expense.json"))

workers = Workers(concurrency=8, drain="5s")

# The poll timeout is 0 because the application may be stopped for longer than an hour, the default.


@workers.task("pay_out", retry_count=5, retry_delay_seconds=1, response_timeout_seconds=10, poll_timeout_seconds=0)
def pay_out(who: str, amount: float) -> dict:
    return {"told": f"{who} gets {amount:.2f}"}


@workers.task("turn_down", retry_count=5, retry_delay_seconds=1, response_timeout_seconds=10, poll_timeout_seconds=0)
def turn_down(who: str, why: str | None) -> dict:
    return {"told": f"{who} gets nothing: {why or 'no reason given'}"}


def _shown(engine: Engine, expense: str, wait: float = 0) -> JSONResponse:
    """An expense as it stands; with `wait` once it is over, or after so many seconds."""
    try:
        if wait:
            with contextlib.suppress(ResultTimeout, WorkflowFailed):
                engine.wait(expense, timeout=round(wait * 1000))
        workflow = engine.get(expense)
    except ExecutionNotFound:
        return JSONResponse({"error": f"there is no expense {expense}"}, 404)
    waiting = any(task.ref == "approval" and not task.status.terminal for task in workflow.tasks)
    state = "waiting" if waiting else str(workflow.status).lower()
    return JSONResponse({"id": expense, "state": state, "input": workflow.input_data, "output": workflow.output_data})


def _decided(engine: Engine, expense: str, decision: dict) -> JSONResponse:
    try:
        approval = engine.get(expense).task("approval")
    except ExecutionNotFound:
        return JSONResponse({"error": f"there is no expense {expense}"}, 404)
    if approval.status.terminal:
        return JSONResponse({"error": f"{expense} is decided already"}, 409)
    output = {"approved": bool(decision.get("approved")), "why": decision.get("why")}
    stored = engine.update_task(
        TaskResult(workflow_id=expense, task_id=approval.task_id, status=TaskStatus.COMPLETED, output_data=output)
    )
    if stored.output_data != output:  # somebody else was faster
        return JSONResponse({"error": f"{expense} is decided already"}, 409)
    return _shown(engine, expense)


# Every verb may wait for the disk, so none is called on the event loop.


async def hand_in(request: Request) -> JSONResponse:
    """POST /expenses {"who": …, "amount": …}"""
    given = await request.json()
    if not isinstance(given, dict) or not given.get("who") or not isinstance(given.get("amount"), int | float):
        return JSONResponse({"error": "who and amount are needed"}, 400)
    run = await run_in_threadpool(request.app.state.engine.start, EXPENSE, {"who": given["who"], "amount": given["amount"]})
    return JSONResponse({"id": run.workflow_id}, 201)


async def show(request: Request) -> JSONResponse:
    """GET /expenses/ID, with ?wait=SECONDS once it is over"""
    wait = min(float(request.query_params.get("wait", 0)), 30)
    return await run_in_threadpool(_shown, request.app.state.engine, request.path_params["expense"], wait)


async def pending(request: Request) -> JSONResponse:
    """GET /expenses: those that wait for somebody, or are being paid"""
    ids = await run_in_threadpool(lambda: list(request.app.state.engine.workflow_ids(WorkflowStatus.RUNNING)))
    return JSONResponse({"pending": ids})


async def decide(request: Request) -> JSONResponse:
    """POST /expenses/ID/decision {"approved": true or false, "why": …}"""
    decision = await request.json()
    return await run_in_threadpool(_decided, request.app.state.engine, request.path_params["expense"], decision)


def create_app(store: str | os.PathLike[str] = "expenses.db") -> Starlette:
    """The application, with everything it knows in `store`."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        engine = app.state.engine = Engine(store, workers=workers)
        driver = threading.Thread(target=engine.run_forever, name="engine")
        driver.start()
        try:
            yield
        finally:
            engine.stop()
            await run_in_threadpool(driver.join)
            engine.close()

    routes = [
        Route("/expenses", hand_in, methods=["POST"]),
        Route("/expenses", pending),
        Route("/expenses/{expense}", show),
        Route("/expenses/{expense}/decision", decide, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)
