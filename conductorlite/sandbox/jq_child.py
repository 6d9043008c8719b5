"""What a helper process runs: jq programs, one request per line in, one answer per line out, both JSON.

Started as a script with two arguments: the folder of the module `jq`, and the bounds as JSON (`seconds` of processor time per
request, `bytes` of memory for the whole process, `output` characters of results). It imports nothing of the package. A
request is `{"program", "run", "now", "input"}`: without `run` the program is only compiled; `input` is JSON text. An answer
has `results`, or `error`; `spent` tells that the process has grown and wants to be replaced.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
from typing import Any

__all__ = ["main"]

#: What programs see instead of the world; on a line of its own, so that theirs begin on the second. The input is a pair, so
#: that the instant is no part of the text that is compiled. `import` and `include` must stand first: here they cannot.
PRELUDE = (
    '.[0] as $__now__ | {} as $ENV | .[1] | def now: $__now__; def env: {}; def input: error("No more inputs"); '
    "def inputs: empty; def debug: .; def debug(f): .; def stderr: .; def input_filename: null; "
    'def modulemeta: error("modules are not available"); def get_search_list: []; '
    'def halt: error("halt is not available"); def halt_error: error("halt_error is not available"); '
    'def halt_error($code): error("halt_error is not available"); def localtime: gmtime; '
    "def strflocaltime($format): strftime($format);\n"
)

#: Compiled programs kept.
KEPT = 128
#: A process that has once needed so much, in bytes, is replaced: what it may still take would depend on the past.
GROWN = 96 * 1024 * 1024


def main() -> None:
    """Answer until the other end is closed."""
    folder, bounds = sys.argv[1], json.loads(sys.argv[2])
    sys.path.append(folder)
    import jq  # type: ignore[import-not-found, unused-ignore]  # the extra is where this process was told, or it would not run

    bound_memory(bounds["bytes"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    programs: dict[str, Any] = {}
    for line in sys.stdin.buffer:
        watch(bounds["seconds"])
        answer = reply(jq, programs, json.loads(line), bounds["output"])
        watch(0)
        answer["spent"] = grown() > GROWN
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def reply(jq: Any, programs: dict[str, Any], request: dict[str, Any], most: int) -> dict[str, Any]:
    """Compile, run, collect."""
    text = request["program"]
    try:
        program = programs.get(text)
        if program is None:
            if len(programs) >= KEPT:
                programs.clear()
            program = programs[text] = jq.compile(PRELUDE + text)
        if not request["run"]:
            return {}
        given = program.input_text(f"[{json.dumps(request['now'])},{request['input']}]")
        results, length = [], 0
        for result in given:
            written = json.dumps(result)
            length += len(written) + 1
            if length > most:
                return {"error": f"the program puts out more than {most:,} characters"}
            results.append(written)
        return {"results": f"[{','.join(results)}]"}
    except MemoryError:
        return {"error": "the program needs more memory than it may have"}
    except (ValueError, RecursionError) as error:
        return {"error": str(error)[:10_000]}


def bound_memory(size: int) -> None:
    """No more address space than that, where the system can be told so; and no core files."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def grown() -> int:
    """The most memory this process has ever had, in bytes; 0 where that is not told, as nothing bounds it there either."""
    # Not getrusage: what that tells includes the process this one was forked from.
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def watch(seconds: float) -> None:
    """End this process after so much time; 0 ends the watch. jq never looks up, so nothing in Python could."""
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
