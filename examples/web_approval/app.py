"""Expenses that somebody has to approve: the engine inside a Starlette application.

    pip install starlette uvicorn
    uvicorn --app-dir examples/web_approval --factory app:create_app

One background task drives the engine as long as the application lives; requests start executions and await them on the
same event loop. A WAIT task without an end stands for the person; the POST of the decision completes it. Nothing is lost
when the application is stopped in between.
"""

import contextlib
import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from conductorlite import (
    AsyncEngine,
    ResultTimeout,
    TaskResult,
    TaskStatus,
    Workers,
    WorkflowFailed,
    WorkflowStatus,
    flow,
    task,
)
from conductorlite.errors import ExecutionNotFound
from conductorlite.flows import Backoff, otherwise, wait, when

AGAIN = Backoff(5, first="1s")

# The poll timeout is 0 because the application may be stopped for longer than an hour, the default.


@task(retry=AGAIN, response_timeout="10s", poll_timeout="0s")
def pay_out(who: str, amount: float) -> dict:
    return {"message": f"{who} gets {amount:.2f}"}


@task(retry=AGAIN, response_timeout="10s", poll_timeout="0s")
def turn_down(who: str, why: str | None) -> dict:
    return {"message": f"{who} gets nothing: {why or 'no reason given'}"}


@task(retry=AGAIN, response_timeout="10s", poll_timeout="0s")
async def quote_step(total: float, factor: float) -> dict:
    return {"total": round(total * factor, 2)}


@flow
def expense(who: str, amount: float) -> dict:
    """Somebody approves an expense, whenever that is; then it is paid, or turned down."""
    approval = wait(name="approval")
    with when(approval.approved, name="approved"):
        paid = pay_out(who=who, amount=amount)
    with otherwise():
        turned_down = turn_down(who=who, why=approval.why)
    return {"paid": paid["message"], "turnedDown": turned_down["message"]}


@flow
def quote(amount: float) -> dict:
    """Five steps from an amount to a price"""
    total = amount
    for name, factor in (("fees", 1.02), ("insurance", 1.01), ("discount", 0.95), ("tax", 1.19), ("rounding", 1.0)):
        total = quote_step.options(name=name)(total=total, factor=factor)["total"]
    return {"price": total}


async def _shown(engine: AsyncEngine, expense: str, wait: float = 0) -> JSONResponse:
    """An expense as it stands; with `wait` once it is over, or after so many seconds."""
    try:
        if wait:
            with contextlib.suppress(ResultTimeout, WorkflowFailed):
                await engine.result(expense, timeout=f"{wait}s")
        workflow = await engine.get(expense)
    except ExecutionNotFound:
        return JSONResponse({"error": f"there is no expense {expense}"}, 404)
    waiting = any(task.ref == "approval" and not task.status.terminal for task in workflow.tasks)
    state = "waiting" if waiting else str(workflow.status).lower()
    return JSONResponse({"id": expense, "state": state, "input": workflow.input_data, "output": workflow.output_data})


async def hand_in(request: Request) -> JSONResponse:
    """POST /expenses {"who": …, "amount": …}"""
    given = await request.json()
    if not isinstance(given, dict) or not given.get("who") or not isinstance(given.get("amount"), int | float):
        return JSONResponse({"error": "who and amount are needed"}, 400)
    run = await request.app.state.engine.start(expense, who=given["who"], amount=given["amount"])
    return JSONResponse({"id": run.workflow_id}, 201)


async def show(request: Request) -> JSONResponse:
    """GET /expenses/ID, with ?wait=SECONDS once it is over"""
    wait = min(float(request.query_params.get("wait", 0)), 30)
    return await _shown(request.app.state.engine, request.path_params["expense"], wait)


async def pending(request: Request) -> JSONResponse:
    """GET /expenses: those that wait for somebody, or are being paid"""
    return JSONResponse({"pending": [one async for one in request.app.state.engine.admin.workflow_ids(WorkflowStatus.RUNNING)]})


async def decide(request: Request) -> JSONResponse:
    """POST /expenses/ID/decision {"approved": true or false, "why": …}"""
    engine: AsyncEngine = request.app.state.engine
    expense, decision = request.path_params["expense"], await request.json()
    try:
        approval = (await engine.get(expense)).task("approval")
    except ExecutionNotFound:
        return JSONResponse({"error": f"there is no expense {expense}"}, 404)
    if approval.status.terminal:
        return JSONResponse({"error": f"{expense} is decided already"}, 409)
    output = {"approved": bool(decision.get("approved")), "why": decision.get("why")}
    stored = await engine.update_task(
        TaskResult(workflow_id=expense, task_id=approval.task_id, status=TaskStatus.COMPLETED, output_data=output)
    )
    if stored.output_data != output:  # another request was faster
        return JSONResponse({"error": f"{expense} is decided already"}, 409)
    return await _shown(engine, expense)


async def make_quote(request: Request) -> JSONResponse:
    """POST /quotes {"amount": …}: five steps, awaited in the request"""
    given = await request.json()
    run = await request.app.state.engine.start(quote, amount=given["amount"])
    return JSONResponse(await run.result(timeout="30s"))


def create_app(store: str | os.PathLike[str] = "expenses.db") -> Starlette:
    """The application, with everything it knows in `store`."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with (
            AsyncEngine(store, workers=Workers(concurrency=8, drain="5s").include(expense, quote)) as engine,
            engine.background(),
        ):
            app.state.engine = engine
            yield

    routes = [
        Route("/expenses", hand_in, methods=["POST"]),
        Route("/expenses", pending),
        Route("/expenses/{expense}", show),
        Route("/expenses/{expense}/decision", decide, methods=["POST"]),
        Route("/quotes", make_quote, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)
