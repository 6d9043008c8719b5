"""A nightly batch: at 02:00 UTC the sales of the day before are added up and published.

The id of an execution is its day. So the script may be started, stopped, killed and started again at any time, or twice:
each day is done once, a night that was begun is continued, and one that was slept through is made up for.
"""

import argparse
import csv
import json
import sys
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from conductorlite import Engine, Run, WorkflowFailed, flow, task
from conductorlite.errors import AlreadyExists
from conductorlite.flows import Backoff

BEGINS = time(2, 0, tzinfo=UTC)
AGAIN = Backoff(5, first="10m")

# A worker is dead after 30 s without a sign of life; what no worker has polled waits, for the script may be stopped for days.


@task(retry=AGAIN, response_timeout="30s", poll_timeout="0s")
def collect(day: str, folder: str) -> dict:
    """The day's lines; a file that is not there yet is waited for, by way of the retries."""
    with (Path(folder) / f"sales-{day}.csv").open(newline="", encoding="utf-8") as file:
        return {"sales": [[product, int(count)] for product, count in csv.reader(file)]}


@task(response_timeout="30s", poll_timeout="0s")
def add_up(sales: list) -> dict:
    totals: Counter[str] = Counter()
    for product, count in sales:
        totals[product] += count
    return {"totals": dict(sorted(totals.items()))}


@task(retry=AGAIN, response_timeout="30s", poll_timeout="0s")
def publish(day: str, folder: str, totals: dict) -> dict:
    """Written aside and moved into place: a reader sees a whole report, and twice is as good as once."""
    report = Path(folder) / f"report-{day}.json"
    aside = report.with_suffix(".tmp")
    aside.write_text(json.dumps({"day": day, "totals": totals}, indent=2), encoding="utf-8")
    aside.replace(report)
    return {"report": report.name}


@flow
def nightly_batch(day: str, folder: str) -> dict:
    """Counts a day's sales and publishes a report."""
    collected = collect.options(retry=5)(day=day, folder=folder)
    added = add_up(sales=collected["sales"])
    published = publish.options(retry=5)(day=day, folder=folder, totals=added["totals"])
    return {"report": published["report"], "totals": added["totals"]}


def night_of(engine: Engine, day: date, folder: Path) -> Run:
    """The execution for a day, which begins in the night after it; started if it is not there."""
    name = f"nightly-{day}"
    try:
        begins = datetime.combine(day + timedelta(days=1), BEGINS)
        return engine.start(nightly_batch.options(workflow_id=name, at=begins), day=str(day), folder=str(folder))
    except AlreadyExists:
        return engine.run(name)


def go_through(engine: Engine, first: date, nights: int, folder: Path) -> int:
    """Do so many nights, one after the other; a night that fails does not keep the next one from its turn."""
    failed = 0
    for number in range(nights):
        day = first + timedelta(days=number)
        try:
            print(f"{day}: {night_of(engine, day, folder).result()['totals']}", flush=True)
        except WorkflowFailed as error:
            failed += 1
            print(f"{day}: failed, {error}", flush=True)
    return failed


def main() -> int:
    """1 when a night failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds sales-YYYY-MM-DD.csv; reports are written there")
    parser.add_argument("--first", type=date.fromisoformat, default=datetime.now(UTC).date(), help="first day (today)")
    parser.add_argument("--nights", type=int, default=1, help="how many days (%(default)s)")
    options = parser.parse_args()
    with Engine(options.folder / "nightly.db", workers=[nightly_batch]) as engine:
        return 1 if go_through(engine, options.first, options.nights, options.folder.resolve()) else 0


if __name__ == "__main__":
    sys.exit(main())
