"""The identity of the files that a store has open: the database, its log and its shared memory.

SQLite goes on with the files it has open when somebody deletes, replaces or renames them: what it commits then is not in the file
at the path. So the files at their paths are compared with the open ones after each commit, before anybody hears of it, and before
each view. The log and the shared memory are compared when the folder has changed, and now and then: asking for the times of the
log would make its next sync slower, because Linux then has to write them too.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NoReturn, final

from conductorlite.model.errors import StorageReplaced

__all__ = ["OpenFiles"]

_BESIDE: Final = ("-wal", "-shm")

#: After so many checks of a folder that does not change, the files beside the database are compared all the same.
_SELDOM: Final = 64

#: For so many checks after a change of the folder they are compared each time: a second change within the same tick of the file
#: system's clock leaves the same time behind.
_AFTER_CHANGE: Final = 8

#: The device and the number of a file; None when there is none.
_Id = tuple[int, int] | None


@final
class OpenFiles:
    """The files that the connections of one backend have open, and the check that they still stand at their paths.

    Not found: new content that is written into the same file (`cp backup.db store.db`). That is damage.
    """

    __slots__ = ("_beside", "_changed_at", "_folder", "_linked", "_looks", "_open", "_path", "_paths", "_settled_at", "problem")

    def __init__(self, path: str) -> None:
        self._path: Final = path
        real = os.path.realpath(path)
        self._folder: Final = os.path.dirname(real)  # noqa: PTH120 - asked for at every commit, and a Path costs more
        #: A link at the path may lead to another folder tomorrow.
        self._linked: Final = real != path
        self._paths: Final = tuple(f"{real}{suffix}" for suffix in _BESIDE)
        self._open: _Id = None
        #: The log and the shared memory; None while no connection has them open for certain.
        self._beside: tuple[_Id, ...] | None = None
        self._changed_at = self._looks = self._settled_at = 0
        #: What was found, and lasts; empty as long as nothing was.
        self.problem = ""

    def opening(self) -> None:
        """Note the file that is about to be opened; raises StorageReplaced when it is not the one that was opened before."""
        found = _id(self._path, self._open)
        if self._open is None:
            self._open = found
        elif found != self._open:
            self._fail(self._path, found)

    def opened(self) -> None:
        """Note the files beside it, which are open now; raises StorageReplaced when the file was replaced meanwhile."""
        if self._open is None:
            self._open = _id(self._path, None)
        self._beside = tuple(_id(path, None) for path in self._paths)
        self.check()

    def closing(self) -> None:
        """Note that a connection is about to be closed: the last one removes the files beside the database."""
        self._beside = None

    def check(self) -> None:
        """Raise StorageReplaced unless the files at the paths are the open ones; the first time it is logged, too."""
        try:
            seen, changed_at = os.stat(self._path), os.stat(self._folder).st_mtime_ns  # noqa: PTH116 - a Path costs more
        except (FileNotFoundError, NotADirectoryError):  # raised as what it means
            self._fail(self._path, None)
        except OSError:
            return  # nothing is known of it, and what is open stays open
        if (found := (seen.st_dev, seen.st_ino)) != self._open:
            self._fail(self._path, found)
        self._looks = looks = self._looks + 1
        if changed_at != self._changed_at:
            self._changed_at, self._settled_at = changed_at, looks + _AFTER_CHANGE
        elif looks >= self._settled_at and looks % _SELDOM:
            return
        self._compare()

    def check_folder(self) -> None:
        """Check the files if the folder has changed: for a view, and before a write into a log that may not be the open one."""
        if self._looks >= self._settled_at and not self._linked:
            try:
                if os.stat(self._folder).st_mtime_ns == self._changed_at:  # noqa: PTH116
                    return
            except OSError:
                pass  # the check says what is wrong
        self.check()

    def _compare(self) -> None:
        if (beside := self._beside) is None:
            return
        for path, wanted in zip(self._paths, beside, strict=True):
            # Else a connection is being closed or opened by another thread.
            if (found := _id(path, wanted)) != wanted and self._beside is beside:
                self._fail(path, found)

    def _fail(self, path: str, found: _Id) -> NoReturn:
        if not self.problem:
            what = "was deleted or renamed" if found is None else "was replaced by another file"
            self.problem = (
                f"{self._path}: {path} {what} while the store was open, so what is committed now could not be found again; "
                "the engine does nothing more: put the right file in its place, and open that with another engine"
            )
            with suppress(Exception):  # a handler of the user's that raises
                import logging

                logging.getLogger("conductorlite.store").error("%s", self.problem)
        raise StorageReplaced(self.problem)


def _id(path: str, unknown: _Id) -> _Id:
    """The file at a path; `unknown` where it cannot be asked for."""
    try:
        seen = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):  # that is an answer
        return None
    except OSError:  # a folder that may not be looked into any more: what is open stays open
        return unknown
    return seen.st_dev, seen.st_ino
