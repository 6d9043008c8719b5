"""Twelve programs that the documentation of other tools teaches, each as a flow in ordinary Python.

The ideas are those of DBOS, Temporal, Prefect, LangGraph and Inngest; the text is this library's. Each can be killed at any
step, and continues. See docs/explanation/compared.md for their lengths.
"""

from dataclasses import dataclass
from typing import Literal

from conductorlite import Engine, TaskFailedTerminally, VirtualClock, flow, task
from conductorlite.errors import TimedOut
from conductorlite.flows import human, receive, wait

# ------------------------------------------------------------------ DBOS: a checkout, an index of documents, a reminder


@task
def reserve(widget: str) -> bool:
    return widget != "gold"


@task
def give_back(widget: str) -> None: ...


@task
def set_status(order: str, status: str) -> str:
    return f"{order} is {status}"


@flow
def checkout(order: str, widget: str) -> str:
    """Reserves a widget, waits two minutes for the payment, and dispatches or gives back."""
    if not reserve(widget):
        return set_status(order, "sold out")
    try:
        paid = receive("payment", bool, timeout="2m")
    except TimedOut:
        paid = False
    if not paid:
        give_back(widget)
        return set_status(order, "canceled")
    wait("1m", name="dispatch")
    return set_status(order, "dispatched")


@task
def pages_of(url: str) -> list[str]:
    return [f"{url}/{page}" for page in range(3)]


@task
def index_page(page: str) -> int:
    return len(page)


@flow
def index(urls: list[str]) -> int:
    """Indexes the pages of each document, all pages of one at once; returns how many words there are."""
    words = 0
    for url in urls:
        pages = pages_of(url)
        words += sum([index_page(page) for page in pages])
    return words


@task
def send(to: str, text: str) -> str:
    return f"{to}: {text}"


@flow
def remind(to: str, days: int) -> list[str]:
    """Confirms a reminder, and sends it days later."""
    confirmed = send(to, "You will be reminded.")
    wait(f"{days} days", name="until_then")
    return [confirmed, send(to, "This is your reminder.")]


# ------------------------------------------------------------------ Temporal: a transfer, a trip, a subscription


@task
def withdraw(account: str, amount: int) -> str:
    return f"W-{account}-{amount}"


@task
def deposit(account: str, amount: int) -> str:
    if account == "closed":
        raise TaskFailedTerminally("no such account")
    return f"D-{account}-{amount}"


@task
def refund(account: str, amount: int) -> str:
    return f"R-{account}-{amount}"


@flow
def transfer(source: str, target: str, amount: int) -> str:
    """Moves money, and moves it back where it cannot arrive."""
    withdrawn = withdraw(source, amount)
    try:
        deposited = deposit(target, amount)
    except Exception as error:
        return f"{refund(source, amount)}: {error}"
    return f"{withdrawn}, {deposited}"


@task
def book(what: str, trip: str) -> str:
    if what == "flight" and trip == "Atlantis":
        raise TaskFailedTerminally("no airport")
    return f"{what} to {trip}"


@task
def cancel(what: str, trip: str) -> str:
    return f"{what} to {trip} canceled"


@flow
def trip(to: str) -> list[str]:
    """Books a car, a hotel and a flight; cancels what was booked, last first, if one fails."""
    booked: list[str] = []
    try:
        book("car", to)
        booked.append("car")
        book("hotel", to)
        booked.append("hotel")
        book("flight", to)
        booked.append("flight")
    except Exception:
        return [cancel(what, to) for what in booked[::-1]]
    return booked


@task
def charge(customer: str, amount: int, month: int) -> int:
    return amount if month < 12 else amount // 2


@flow
def subscription(customer: str, amount: int, months: int) -> int:
    """Greets, charges every thirty days, says goodbye; returns what was paid."""
    send(customer, "Welcome!")
    paid = 0
    for month in range(months):
        wait("30 days")
        paid += charge(customer, amount, month)
    send(customer, "Goodbye!")
    return paid


# ------------------------------------------------------------------ Prefect: statistics of repositories, paging


@task(retry=3)
def stars(repo: str) -> int:
    return len(repo) * 10


@flow
def statistics(repos: list[str]) -> list[str]:
    """Asks for the stars of all repositories at once."""
    counts = [stars(repo) for repo in repos]
    return [f"{repo}: {count} stars" for repo, count in zip(repos, counts, strict=True)]


@task(retry=2)
def fetch(page: int) -> list[int]:
    return [] if page > 3 else [page, page * page]


@task
def save(rows: list[int]) -> int:
    return len(rows)


@flow
def paging(count: int) -> int:
    """Fetches pages, one after the other, drops what is odd, and saves the rest."""
    rows: list[int] = []
    for page in range(1, count + 1):
        rows.extend([one for one in fetch(page) if one % 2 == 0])
    return save(rows)


# ------------------------------------------------------------------ LangGraph: a judge, a chain, a review


@dataclass
class Verdict:
    grade: Literal["funny", "not funny"]
    feedback: str


@task
def tell(topic: str, feedback: str | None) -> str:
    return f"a joke about {topic}" if feedback is None else f"a joke about {topic}, {feedback}"


@task
def judge(joke: str) -> Verdict:
    return Verdict("funny", "") if "shorter" in joke else Verdict("not funny", "but shorter")


@flow
def joke(topic: str) -> str:
    """Tells a joke until the judge laughs."""
    feedback = None
    while True:
        told = tell(topic, feedback)
        verdict = judge(told)
        if verdict.grade == "funny":
            return told
        feedback = verdict.feedback


@task
def improve(text: str) -> str:
    return f"{text}!"


@flow
def chain(topic: str) -> str:
    """Improves a joke that has no punchline."""
    told = tell(topic, None)
    if "!" in told or "?" in told:
        return told
    return improve(improve(told))


@flow
def essay(topic: str) -> dict[str, str | bool]:
    """Writes an essay, and has somebody approve it."""
    text = improve(f"An essay about {topic}")
    approved = human("review", bool, timeout="7 days", essay=text)
    return {"essay": text, "approved": approved}


# ------------------------------------------------------------------ Inngest: a campaign


@flow
def onboarding(email: str) -> list[str]:
    """Welcomes, waits three days for a first post, then thanks or gives a hint."""
    sent = [send(email, "Welcome!")]
    try:
        post = receive("first_post", str, timeout="3 days")
        sent.append(send(email, f"Thank you for {post}."))
    except TimedOut:
        sent.append(send(email, "This is how to write a post."))
    return sent


def main(store: str | None = None) -> None:
    """Move some money."""
    with Engine(store, workers=[transfer], clock=VirtualClock(0)) as engine:
        for target in ("Ben", "closed"):
            print(engine.start_and_wait(transfer, source="Ada", target=target, amount=5))


if __name__ == "__main__":
    main("peers.db")
