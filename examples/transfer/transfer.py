"""Money moves exactly once: the worker's own rows and its report are one commit, in the same SQLite file.

Kill it wherever you like: either the balance has changed and the step is done, or neither.
"""

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

from conductorlite import Engine, TaskFailedTerminally, Transaction, flow, task


@dataclass
class Taken:
    """What was taken from whom."""

    account: str
    amount: int


@task(retry=5)
def withdraw(account: str, amount: int, tx: Transaction = Transaction.given) -> Taken:
    """Raises for an account without enough; then nothing was written."""
    tx.execute("UPDATE app_accounts SET balance = balance - ? WHERE name = ? AND balance >= ?", (amount, account, amount))
    if not tx.execute("SELECT 1 FROM app_accounts WHERE name = ? AND changes() = 1", (account,)):
        raise TaskFailedTerminally(f"{account} has not {amount}")
    return Taken(account, amount)


@task(retry=5)
def deposit(account: str, amount: int, tx: Transaction = Transaction.given) -> None:
    """Raises for an account that is not there."""
    if not tx.execute("SELECT 1 FROM app_accounts WHERE name = ?", (account,)):
        raise TaskFailedTerminally(f"there is no {account}")
    tx.execute("UPDATE app_accounts SET balance = balance + ? WHERE name = ?", (amount, account))


@task(retry=5)
def give_back(taken: Taken, tx: Transaction = Transaction.given) -> None:
    tx.execute("UPDATE app_accounts SET balance = balance + ? WHERE name = ?", (taken.amount, taken.account))


@flow
def transfer(source: str, target: str, amount: int) -> None:
    """From one account to another; what cannot be put in is given back."""
    withdraw.options(undo=give_back)(source, amount)
    deposit(target, amount)


def main(store: str | None = None) -> None:
    """Three transfers, of which one is possible; all in all the money stays what it was."""
    with tempfile.TemporaryDirectory() as folder, Engine(store or Path(folder, "bank.db"), workers=[transfer]) as engine:
        with engine.transaction() as tx:
            tx.execute("CREATE TABLE IF NOT EXISTS app_accounts (name TEXT PRIMARY KEY, balance INTEGER)")
            tx.executemany("INSERT OR REPLACE INTO app_accounts VALUES (?, ?)", [("Ada", 100), ("Bob", 0)])
        for source, target, amount in (("Ada", "Bob", 40), ("Bob", "Ada", 60), ("Ada", "nobody", 60)):
            run = engine.start(transfer, source=source, target=target, amount=amount)
            engine.run_until_idle()
            print(f"{amount} from {source} to {target}: {run.status}")
        with engine.transaction() as tx:
            print(dict(tx.execute("SELECT name, balance FROM app_accounts ORDER BY name")))


if __name__ == "__main__":
    logging.getLogger("conductorlite").setLevel(logging.ERROR)  # what fails is meant to
    main("bank.db")
