"""A browser that a test sits in front of: Chromium without a window, asked over its pipe."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe")


class Browser:
    """One page; `with Browser(folder) as browser`. What its console complains of is kept in `complaints`."""

    def __init__(self, folder: Path, size: tuple[int, int] = (1280, 900), *, dark: bool = False) -> None:
        down, up = os.pipe(), os.pipe()
        options = [*_OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--window-size={size[0]},{size[1]}"]
        options += ["--enable-features=WebContentsForceDark", "--force-dark-mode"] if dark else []
        # Chromium reads descriptor 3 and writes descriptor 4.
        command = f"exec {shlex.join([str(CHROMIUM), *options])} 3<&{down[0]} 4>&{up[1]}"
        self._process = subprocess.Popen(["bash", "-c", command], pass_fds=(down[0], up[1]), stderr=subprocess.DEVNULL)
        os.close(down[0])
        os.close(up[1])
        self._down, self._up = os.fdopen(down[1], "wb"), os.fdopen(up[0], "rb")
        self._number, self._rest = 0, b""
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        if dark:
            feature = {"name": "prefers-color-scheme", "value": "dark"}
            self._call("Emulation.setEmulatedMedia", {"features": [feature]})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._down.close()
        self._up.close()

    def _call(self, method: str, parameters: dict[str, Any] | None = None) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        self._down.write(json.dumps(message).encode() + b"\0")
        self._down.flush()
        while True:
            found = self._message()
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]
            self._noted(found)

    def _message(self) -> Any:
        while b"\0" not in self._rest:
            read = self._up.read1(1 << 20)  # type: ignore[union-attr]
            assert read, "the browser is gone"
            self._rest += read
        one, _, self._rest = self._rest.partition(b"\0")
        return json.loads(one)

    def _noted(self, event: Any) -> None:
        entry = event.get("params", {}).get("entry", event.get("params", {}))
        if event.get("method") == "Runtime.exceptionThrown" or (
            event.get("method") == "Log.entryAdded" and entry.get("level") == "error"
        ):
            self.complaints.append(json.dumps(entry)[:500])

    def open(self, url: str) -> None:
        """Go to an address, and wait until the page is there."""
        self._call("Page.navigate", {"url": url})
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def ask(self, script: str) -> Any:
        """What an expression is on the page, awaited; fails when it throws."""
        options = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = self._call("Runtime.evaluate", options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression holds on the page, for twenty seconds at most, over pages that come meanwhile."""
        for _ in range(400):
            try:
                if self.ask(f"new Promise(done => setTimeout(() => done(Boolean({condition})), 50))"):
                    return
            except AssertionError:
                continue  # another page has come
        raise AssertionError(f"{condition} did not come to be: {self.ask('document.body.innerText')[:2_000]}")

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen into a PNG file."""
        found = self._call("Page.captureScreenshot", {"captureBeyondViewport": whole})
        file.write_bytes(base64.b64decode(found["data"]))
