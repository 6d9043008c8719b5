"""Many calls of an API that allows ten a minute and sometimes says 429: none is lost, none is made too early, from any process."""

import logging
from collections import Counter

from conductorlite import Engine, TaskContext, VirtualClock, flow, task
from conductorlite.flows import Backoff, each


class TooManyRequests(Exception):
    """429."""


@task(rate=(10, "1m"), retry=Backoff(5, first="30s", factor=2, longest="10m"))
def fetch(page: int, context: TaskContext = TaskContext.given) -> int:
    """How many links a page has; every seventh is refused the first time."""
    if page % 7 == 3 and context.attempt == 0:
        raise TooManyRequests(f"page {page}")
    return page * 2


@task
def add_up(links: list[int]) -> int:
    return sum(links)


@flow
def crawl(pages: list[int]) -> int:
    """Counts the links of all pages."""
    return add_up(each(pages, fetch))


def main(store: str | None = None) -> None:
    """Twenty-five pages, with how many calls there were in each minute."""
    with Engine(store, workers=[crawl], clock=VirtualClock(0)) as engine:
        run = engine.start(crawl, pages=list(range(25)))
        print(run.result(), "links")
        calls = Counter(one.started_at // 60_000 for one in run.tasks if one.task_type == "fetch")
        print("calls in each minute:", *(calls[minute] for minute in range(max(calls) + 1)))
        refused = engine.tasks.search("errorType = '*TooManyRequests'").total_hits
        print(refused, "were refused and made again")


if __name__ == "__main__":
    logging.getLogger("conductorlite").setLevel(logging.ERROR)  # what fails is meant to
    main()
