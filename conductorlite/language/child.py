"""Program of a helper process: it runs scripts of one language, one request per line in, one answer per line out, both JSON.

Started as a script with three arguments: the language (`javascript` or `jq`), the folder of its module, and the bounds as JSON
(`seconds` of processor time per request, `bytes` of memory for the whole process, `output` characters of an answer). It imports
nothing of the package.

`javascript`: `{"text", "run", "values", "now", "chance", "java", "wide"}`; `jq`: `{"text", "run", "values", "now", "wide"}`.
An empty line says that the process is ready. Without `run` the text is only compiled; `values` is JSON text, and `wide` says that
it may hold whole numbers that a double cannot. An answer has `answer`, or `error`, or `cut` when the memory was over, or `late`
when the time was and the process still lives; `spent` says that the process has grown and has to be replaced.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]

#: What jq programs see instead of the world; on a line of its own, so that theirs begin on the second. The input is a pair, so
#: that the instant is no part of the text that is compiled. `import` and `include` must stand first: here they cannot.
JQ_PRELUDE = (
    '.[0] as $__now__ | {} as $ENV | .[1] | def now: $__now__; def env: {}; def input: error("No more inputs"); '
    "def inputs: empty; def debug: .; def debug(f): .; def stderr: .; def input_filename: null; "
    'def modulemeta: error("modules are not available"); def get_search_list: []; '
    'def halt: error("halt is not available"); def halt_error: error("halt_error is not available"); '
    'def halt_error($code): error("halt_error is not available"); def localtime: gmtime; '
    "def strflocaltime($format): strftime($format);\n"
)
#: The lines of JavaScript's prelude come after all lines a script has, so that the place of an error distinguishes the two.
FIRST_LINE = 100_000

#: Compiled jq programs kept.
KEPT = 128
#: A process that has once needed so much, in bytes, is replaced: what it may still take would depend on the past.
GROWN = 96 * 1024 * 1024
#: Of the memory of the process, what a script of JavaScript may have; the rest is the interpreter's.
SCRIPT_MEMORY = 64 * 1024 * 1024
#: How exactly the system measures the time of a process, in seconds.
TICK = 0.02
#: Room for a result of 200 levels.
STACK = 1024 * 1024


class Jq:
    """jq programs."""

    def __init__(self, bounds: dict[str, Any]) -> None:
        import jq  # type: ignore[import-not-found, unused-ignore]  # at the path this process was given

        self.jq = jq
        self.most, self.exact = bounds["output"], " ".join(beside("wide.jq").split())
        self.programs: dict[tuple[str, bool], Any] = {}

    def prepare(self) -> None:
        """Nothing is kept from one program to the next."""

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile, run, collect the results: a JSON list."""
        text = request["text"]
        try:
            wide = request["run"] and request["wide"]
            program = self.programs.get((text, wide))
            if program is None:
                if len(self.programs) >= KEPT:
                    self.programs.clear()
                whole = f"{JQ_PRELUDE[:-1]} {self.exact} (\n{text}\n) | tojson" if wide else JQ_PRELUDE + text
                program = self.programs[text, wide] = self.jq.compile(whole)
            if not request["run"]:
                return {}
            given = program.input_text(f"[{json.dumps(request['now'])},{request['values']}]")
            results, length = [], 0
            for result in given:
                written = result if wide else json.dumps(result)
                length += len(written) + 1
                if length > self.most:
                    return {"error": f"the program puts out more than {self.most:,} characters"}
                results.append(written)
            return {"answer": f"[{','.join(results)}]"}
        except MemoryError:
            return {"cut": "the program needs more memory than it may have"}
        except (ValueError, RecursionError) as error:
            return {"error": str(error)[:10_000]}


class JavaScript:
    """Scripts of JavaScript, each in a realm of its own that nothing else has touched."""

    def __init__(self, bounds: dict[str, Any]) -> None:
        import _quickjs  # type: ignore[import-not-found, unused-ignore]  # the package `quickjs` around it starts a thread when it is imported

        self.quickjs = _quickjs
        self.seconds, self.most = bounds["seconds"], bounds["output"]
        self.prelude, self.wide = ("\n" * FIRST_LINE + beside(name) for name in ("prelude.js", "wide.js"))
        self.ready: Any = None

    def context(self) -> Any:
        """A realm that nothing has touched."""
        context = self.quickjs.Context()
        context.set_memory_limit(SCRIPT_MEMORY)
        context.set_max_stack_size(STACK)
        return context

    def prepare(self) -> None:
        """Make the realm of the next script, while no caller waits for it."""
        context = self.context()
        self.ready = context, context.eval(self.prelude)

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile, or run: what the prelude answers."""
        text = request["text"]
        try:
            if not request["run"]:
                # What is parsed is not run: the first statement throws.
                self.context().eval("throw 0;" + text)
                return {}
            if self.ready is None:
                self.prepare()
            (context, run), self.ready = self.ready, None
            context.set_time_limit(self.seconds)
            began = sum(os.times()[:2])
            longer = f"the result is longer than {self.most:,} characters"
            values = request["values"], text, request["now"], *request["chance"], request["java"], self.most, longer
            answer = run(*values, context.eval(self.wide)) if request["wide"] else run(*values)
            if sum(os.times()[:2]) - began >= self.seconds - TICK:
                return {"late": ""}  # what ended it was caught: a promise keeps what its function throws
            if len(answer) > self.most:
                return {"error": longer}
            return {"answer": answer}
        except UnicodeEncodeError:
            return {"error": "a text given to the script holds half of a surrogate pair"}
        except (self.quickjs.JSException, self.quickjs.StackOverflow, MemoryError) as error:
            said = str(error).strip()
            if said.startswith("InternalError: interrupted"):
                return {"late": said[:2_000]}
            if said in ("", "null"):
                return {"cut": "the script needs more memory than it may have"}
            return {"error": said[:10_000]}


def beside(name: str) -> str:
    """The text of a file in the folder of this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


LANGUAGES: dict[str, type[Jq | JavaScript]] = {"javascript": JavaScript, "jq": Jq}


def main() -> None:
    """Answer until the other end is closed."""
    language, folder, bounds = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    sys.path.append(folder)
    scripts = LANGUAGES[language](bounds)
    bound_memory(bounds["bytes"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    scripts.prepare()
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        # A script that looks up now and then ends itself in time; a single call of a built-in is ended with its process.
        watch(bounds["seconds"] + (0.05 if language == "javascript" else 0))
        answer = scripts.reply(json.loads(line))
        watch(0)
        answer["spent"] = extended() > GROWN
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        if not answer["spent"]:
            scripts.prepare()


def bound_memory(size: int) -> None:
    """No more address space than that, where the system has such a limit; and no core files."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def extended() -> int:
    """The most memory this process has ever had, in bytes; 0 where that is not known, as nothing bounds it there either."""
    # Not getrusage: what that returns includes the process this one was forked from.
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def watch(seconds: float) -> None:
    """End this process after so much time; 0 ends the watch. A script never looks up while it is in a built-in function."""
    if hasattr(signal, "setitimer"):
        if seconds:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
        signal.setitimer(signal.ITIMER_PROF, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))
    else:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
