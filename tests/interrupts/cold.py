"""A program interrupted between two instructions, from its first import to its first result, where nothing is imported yet.

    python tests/interrupts/cold.py --store /tmp/s%d.db --worker coroutine --instants 200

The process imports nothing but this file, and forks for each instant. The child runs the program, is interrupted once, and runs the
program again, as a cell of a notebook is run again: with the engine it has, or another one if it has none. It must come to its
result. An interrupt is a KeyboardInterrupt or, with `--handler`, a signal whose handler calls verbs. Left out is what
`testing/interrupts.py` leaves out: the import system, and how `threading` begins and ends a thread. `--modules` interrupts each
import instead, where its module is looked for; `--named asyncio.` only those of modules whose name begins so. Prints JSON: the
number of instants there are, how often the program was interrupted, and what went wrong.
"""

from __future__ import annotations

import json
import os
import sys

#: Files that are left out, with all below them, and functions of `threading`.
LEFT_OUT = ("<frozen importlib", "/importlib/", "/logging/")
THREADS = ("start", "_bootstrap", "_bootstrap_inner", "_delete", "_stop", "_set_ident", "_set_tstate_lock", "__init__")

#: Seconds after which a child is given up.
PATIENCE = 60


class Interruption:
    """Counts instructions, or imports, and interrupts before the one with the number `at`."""

    def __init__(self, at, act, modules, named):
        self.at, self.act, self.modules, self.named = at, act, modules, named
        self.number, self.where, self.active = 0, "", False

    def __enter__(self):
        self.active = True
        if self.modules:
            sys.meta_path.insert(0, self)
        else:
            sys.settrace(self.called)
        return self

    def __exit__(self, *_):
        self.active = False
        sys.settrace(None)

    def find_spec(self, name, path=None, target=None):
        if self.active and name.startswith(self.named):
            self.step(name)

    def step(self, where):
        self.number += 1
        if self.number == self.at:
            self.where = where
            self.act()

    def called(self, frame, event, _):
        code = frame.f_code
        name = code.co_filename
        if not self.active or name == __file__ or any(part in name for part in LEFT_OUT):
            return None
        if name.endswith("/threading.py") and code.co_name in THREADS:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.traced

    def traced(self, frame, event, _):
        if event == "opcode" and self.active:
            self.step(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        return self.traced


class Program:
    """What is interrupted, and run again."""

    def __init__(self, store, worker):
        self.store, self.worker = store, worker
        self.engine = None
        #: What the handler of a signal got.
        self.said = []

    def run(self):
        """Come to the result."""
        from conductorlite import Engine, Workers, WorkflowDef

        if self.engine is None:
            workers = Workers()
            if self.worker == "coroutine":

                async def act(n: int) -> int:
                    return n + 1

            else:

                def act(n: int) -> int:
                    return n + 1

            workers.task("act", retry_count=9, retry_delay_seconds=0)(act)
            self.engine = Engine(self.store, workers=workers)
        step = {"name": "act", "taskReferenceName": "a", "inputParameters": {"n": "${workflow.input.n}"}}
        output = {"n": "${a.output.result}"}
        definition = WorkflowDef.from_json({"name": "w", "tasks": [step], "outputParameters": output})
        key = {"idempotency_key": "one", "idempotency_strategy": "RETURN_EXISTING"}
        run = self.engine.start(definition, {"n": 1}, **key)
        return run.result("30s")

    def handle(self, number, frame):
        """Ask for a verb, as the handler of a signal."""
        if self.engine is not None:
            try:
                self.engine.search()
            except BaseException as error:
                self.said.append(type(error).__name__)
            else:
                self.said.append("answered")


def interrupt():
    """Ctrl-C."""
    raise KeyboardInterrupt


def child(options, at):
    """One life: what went wrong, and how far the program came."""
    program = Program(options["store"] and options["store"] % at, options["worker"])
    act = interrupt
    if options["handler"]:
        import signal

        signal.signal(signal.SIGUSR1, program.handle)
        act = lambda: signal.raise_signal(signal.SIGUSR1)  # noqa: E731
    wrong, kept = [], None
    with Interruption(at, act, options["modules"], options["named"]) as interruption:
        try:
            program.run()
        except BaseException as error:
            kept = error
    if kept is not None and type(kept) is not KeyboardInterrupt:
        wrong.append(f"{kept!r} came out instead of the interruption; {kept.__cause__!r}, {kept.__context__!r}")
    if kept is None and interruption.where and not options["handler"]:
        wrong.append("the interruption did not come out")
    if options["handler"] and kept is not None:
        wrong.append("the program was broken by a handler that raises nothing")
    if {*program.said} - {"WouldDeadlock"}:
        wrong.append(f"the handler was {program.said}")
    try:
        if (found := program.run()) != {"n": 2}:
            wrong.append(f"then the result was {found}")
        if found := [str(one) for one in program.engine.admin.check()]:
            wrong.append(f"laws: {found}")
        program.engine.close()
    except BaseException as error:
        wrong.append(f"then {error!r}")
    return {"number": interruption.number, "where": interruption.where, "wrong": wrong, "interrupted": bool(interruption.where)}


def forked(options, at):
    """What a child says."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads that are interrupted print what has interrupted them
        import faulthandler

        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            told = child(options, at)
        except BaseException as error:
            told = {"number": 0, "where": "", "wrong": [f"the child: {error!r}"], "interrupted": False}
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    told = b""
    while piece := os.read(reading, 1 << 16):
        told += piece
    os.close(reading)
    os.waitpid(pid, 0)
    return (
        json.loads(told) if told else {"number": 0, "where": "", "wrong": ["the child ended without a word"], "interrupted": False}
    )


def main(given):
    """Do as told, and print what was found."""
    options = {"store": None, "worker": "function", "handler": False, "modules": False, "named": "", "instants": 20, "first": 0}
    arguments = iter(given)
    for argument in arguments:
        name = argument.removeprefix("--")
        if name in ("handler", "modules"):
            options[name] = True
        else:
            options[name] = next(arguments)
    if options["store"] in ("memory", None):
        options["store"] = None
    sys.setrecursionlimit(5_000)
    calm = forked(options, 0)
    number, wrong, interrupted = calm["number"], [f"uninterrupted: {calm['wrong']}"] if calm["wrong"] else [], 0
    every = max(1, number // int(options["instants"]))
    for at in range(1 + int(options["first"]) % every, number + 1, every):
        told = forked(options, at)
        interrupted += told["interrupted"]
        wrong += [f"instant {at} at {told['where']}: {one}" for one in told["wrong"]]
    print(json.dumps({"number": number, "interrupted": interrupted, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
