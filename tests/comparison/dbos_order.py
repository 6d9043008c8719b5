"""DBOS: no clock but the real one, so delays are arguments that a test makes short; crashes are processes that are killed."""
# mypy: ignore-errors

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from parts import part

FOLDER = Path(os.environ.get("ORDER_FOLDER") or tempfile.mkdtemp())
DBOS(config={"name": "orders", "system_database_url": f"sqlite:///{FOLDER}/orders.sqlite", "log_level": "CRITICAL"})

failures = 20
charged = []
MONTH, WEEK, FIRST = 0.3, 1.0, 0.001  # 30 days, 7 days and 2 s, for real


def effect(name):
    with (FOLDER / name).open("a") as file:
        file.write("x")


def effects(name):
    return len((FOLDER / name).read_text()) if (FOLDER / name).exists() else 0


@DBOS.step(retries_allowed=True, interval_seconds=FIRST, backoff_rate=1.0, max_attempts=21)
def charge(order):
    charged.append(time.monotonic())
    if len(charged) <= failures:
        raise RuntimeError("no")


@DBOS.step()
def ship(order):
    if os.environ.get("DIES") and not effects("died"):
        effect("died")
        os._exit(9)
    effect("shipped")


@DBOS.step()
def cancel(order):
    effect("cancelled")


@DBOS.workflow()
def order_workflow(order):
    charge(order)
    DBOS.sleep(MONTH)
    if DBOS.recv("approval", timeout_seconds=WEEK) is None:
        cancel(order)
        return "cancelled"
    ship(order)
    return "shipped"


def started(order, failing=0):
    global failures
    failures = failing
    charged.clear()
    with SetWorkflowID(order):
        return DBOS.start_workflow(order_workflow, order)


DBOS.launch()
if "recover" in sys.argv:
    print(DBOS.retrieve_workflow("dying").get_result())
    sys.exit()
if "die" in sys.argv:
    started("dying")
    DBOS.send("dying", True, "approval")
    time.sleep(30)


@part
def retries():
    """The schedule of the delays is not tested: with `FIRST` of 2 s and a factor of 2 the test would take ten hours."""
    started("retries", failing=20).get_result()
    assert len(charged) == 21


@part
def month():
    began = time.monotonic()
    assert started("month").get_result() == "cancelled"
    assert time.monotonic() - began >= MONTH + WEEK


@part
def race():
    handle = started("race")
    time.sleep(MONTH)
    DBOS.send("race", True, "approval")
    assert handle.get_result() == "shipped"
    assert started("nobody").get_result() == "cancelled"


@part
def crash():
    """A process dies in `ship`, the next one goes on where it was: at one place, for each takes two processes."""
    command = [sys.executable, __file__]
    environment = {**os.environ, "ORDER_FOLDER": tempfile.mkdtemp(), "DIES": "1"}
    assert subprocess.run([*command, "die"], env=environment).returncode == 9
    told = subprocess.run([*command, "recover"], env=environment, stdout=subprocess.PIPE, text=True)
    assert told.stdout.strip() == "shipped"


@part
def twice():
    handle = started("twice")
    for _ in range(2):
        DBOS.send("twice", True, "approval", idempotency_key="once")
    assert handle.get_result() == "shipped"
    assert started("twice").get_result() == "shipped"  # the same id: the workflow that is there
    shipped = effects("shipped")
    assert started("twice").get_result() == "shipped"
    assert effects("shipped") == shipped


DBOS.destroy()
