"""Drivers: loops around an engine's turns and its workers."""

from conductorlite.driver.engine import Engine
from conductorlite.driver.run import Run

__all__ = ["Engine", "Run"]
