"""The recording of a terminal on the home page: `python docs/record.py` records it again, from a run of examples/etl.

What happened is kept in assets/recording.json, as instants in ms and lines; the picture is drawn of that, and a test compares them.
It moves once, not where motion is unwanted, and then stands still.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

ASSETS: Final = Path(__file__).parent / "assets"
EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "etl" / "etl.py"

#: Lines of the first run after which it is killed.
_KILLED_AFTER: Final = 3
#: Longest pause that is shown, ms; how long a command takes to be typed; how long it is looked at before.
_PAUSE: Final = 1_200
_TYPED: Final = 700
_READ: Final = 900

Line = tuple[int, str, str]


def record() -> list[Line]:
    """Run the example, kill it, run it again: what was printed, and when."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [
            ("python etl.py night-1 80", [str(EXAMPLE), "night-1", "80"], _KILLED_AFTER),
            ("python etl.py night-1 80", [str(EXAMPLE), "night-1", "80"], None),
        ]
        found: list[Line] = []
        for shown, arguments, lines in commands:
            found.append((_last(found) + _READ, "typed", shown))
            found += _run(arguments, Path(folder), _last(found) + _TYPED, lines)
    return found


def _last(lines: Sequence[Line]) -> int:
    return lines[-1][0] if lines else 0


def _run(arguments: Sequence[str], folder: Path, begins: int, most: int | None) -> list[Line]:
    command = [sys.executable, "-u", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    found: list[Line] = []
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        at, before = begins, time.monotonic()
        for text in process.stdout:
            now = time.monotonic()
            at, before = at + min(_PAUSE, round((now - before) * 1_000)), now
            found.append((at, "said", text.rstrip()))
            if len(found) == most:
                process.kill()
                return [*found, (at + 400, "killed", "Killed (kill -9)")]
    return found


_WIDTH: Final = 92
_LEFT: Final = 18
_LINE: Final = 22


def drawn(lines: Sequence[Line]) -> str:
    """The lines as one SVG file, in which each comes when it came."""
    height = 60 + _LINE * len(lines)
    width = _LEFT * 2 + round(_WIDTH * 8.45)
    texts = []
    for number, (at, kind, text) in enumerate(lines):
        prompt = '<tspan class="prompt">$ </tspan>' if kind == "typed" else ""
        place = f'x="{_LEFT}" y="{58 + _LINE * number}" style="animation-delay:{at}ms"'
        texts.append(f'<text class="{kind}" {place} xml:space="preserve">{prompt}{escape(text[:_WIDTH])}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>A job of 80 items is killed and started again: it goes on where it was</title>
<style>
rect {{ fill: #16191f; }} circle {{ fill: #4b5260; }}
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d6dae1;
  animation: shown 1ms linear backwards; }}
.typed {{ fill: #ffffff; font-weight: 600; }} .prompt {{ fill: #67d587; }} .killed {{ fill: #ff8a80; font-weight: 600; }}
@keyframes shown {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none; }} }}
</style>
<rect width="{width}" height="{height}" rx="8"/>
<circle cx="22" cy="20" r="6"/><circle cx="42" cy="20" r="6"/><circle cx="62" cy="20" r="6"/>
{chr(10).join(texts)}
</svg>
"""


def read() -> list[Line]:
    """What was recorded."""
    return [(at, kind, text) for at, kind, text in json.loads((ASSETS / "recording.json").read_text(encoding="utf-8"))]


def main() -> None:
    """Record, and draw."""
    found = record()
    (ASSETS / "recording.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (ASSETS / "recording.svg").write_text(drawn(found), encoding="utf-8")


if __name__ == "__main__":
    main()
