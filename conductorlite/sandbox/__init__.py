"""Foreign code that cannot be bounded inside this process runs in helper processes: the only starter of processes.

A helper answers one request at a time, sees no environment, files or clock of ours that it is not told of, and is ended by
the system when it takes too long or too much. What it answers follows from the request alone, so the logic may ask.
"""

from conductorlite.sandbox.processes import (
    Language,
    Limits,
    NoHelper,
    ScriptCut,
    ScriptTimedOut,
    TextCut,
    installed,
    patience,
    run_script,
    without_helpers,
)

__all__ = [
    "Language",
    "Limits",
    "NoHelper",
    "ScriptCut",
    "ScriptTimedOut",
    "TextCut",
    "installed",
    "patience",
    "run_script",
    "without_helpers",
]
