"""A program that dies, or is to be killed, with tasks in hand; run by `test_dead_holders.py`.

    python dying.py STORE WHAT [KERNEL]

`hold`: starts `w`, says "begun" from its worker, and is at it until it is ended. `two`: the same with a second engine of the same
process, which is closed first. `forks`: the same, and a forked child opens an engine of its own on the store, closes it, and ends.
`thread`: the same, with an engine that is opened in the main thread and driven in another one. `elsewhere`: opened there too.
`handler`: the same, with a handler of the program's own that ends it. `exit`: ends without closing anything.
`poison`: drives what there is; the task `work` kills its process. `look`: says how the task
stands when the store has just been opened.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from conductorlite import Engine, Workers, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

WORK = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "work", "taskReferenceName": "work"}]})


def fork(store: str) -> None:
    """Have a child come and go as Python programs do."""
    child = os.fork()
    if child == 0:
        with Engine(store):
            pass
        sys.exit(0)
    os.waitpid(child, 0)


#: What is driven in another thread than the main one.
THREADS = ("thread", "elsewhere", "handler")


def hold_in_thread(store: str, what: str, workers: Workers) -> None:
    """Wait in the main thread while another one drives, and perhaps opens."""
    opened = Engine(store, workers=workers) if what == "thread" else None

    def hold() -> None:
        (opened or Engine(store, workers=workers)).start(WORK, workflow_id="w").result()

    if what == "handler":
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    threading.Thread(target=hold, daemon=True).start()
    threading.Event().wait(60)


def main(store: str, what: str, kernel: str | None = None) -> None:
    """Do as told."""
    workers = Workers(drain="0s")
    begun = threading.Event()

    @workers.task()
    def work() -> dict[str, bool]:
        if what == "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        begun.set()
        if what != "forks":
            print("begun", flush=True)
        if what == "exit":
            os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(60)
        return {"done": True}

    if what == "look":
        with Engine(SQLiteBackend(store, kernel=kernel)) as engine:
            task = engine.get("w").task("work")
            print(json.dumps({"status": task.status, "attempt": task.attempt, "deaths": task.deaths}))
        return
    if what in THREADS:
        hold_in_thread(store, what, workers)
    engine = Engine(SQLiteBackend(store, kernel=kernel), workers=workers)
    if what == "poison":
        engine.run_until_idle()
        engine.close()
        return
    if what == "two":
        workers.add("other", lambda **_: None)
        other = Engine(SQLiteBackend(store, kernel=kernel), workers=workers)
        other.start(WorkflowDef.from_json({"name": "o", "tasks": [{"name": "other", "taskReferenceName": "o"}]})).result()
        other.close()
    run = engine.start(WORK, workflow_id="w")
    if what == "exit":
        try:
            run.result()
        except KeyboardInterrupt:
            return
    if what == "forks":
        threading.Thread(target=run.result, daemon=True).start()
        begun.wait(30)
        fork(store)
        print("begun", flush=True)
        threading.Event().wait(60)
    with engine:
        run.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
