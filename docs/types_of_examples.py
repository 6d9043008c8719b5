"""What the examples of the table of types are made of: see docs/generate.py."""

from __future__ import annotations

import dataclasses
from collections import deque as deque
from datetime import UTC as UTC
from datetime import date as date
from datetime import datetime as datetime
from datetime import time as time
from datetime import timedelta as timedelta
from decimal import Decimal as Decimal
from enum import Enum, Flag, IntEnum, StrEnum, auto
from pathlib import PurePosixPath as Path
from typing import Generic, NamedTuple, NewType, TypeVar
from uuid import UUID as UUID

import attrs
import pydantic

from conductorlite import WorkflowTask as WorkflowTask

__all__ = ["Box", "Code", "Color", "Guest", "Item", "Level", "Parcel", "Path", "Phase", "Point", "Right", "Sku"]

T = TypeVar("T")
Sku = NewType("Sku", str)


class Color(Enum):
    """Of a thing."""

    RED = "red"


class Phase(StrEnum):
    """Of a job."""

    READY = "ready"


class Level(IntEnum):
    """Of a tank."""

    HIGH = 2


class Right(Flag):
    """Of a guest."""

    READ = auto()
    WRITE = auto()


class Code(str):
    """Of a product."""

    __slots__ = ()


@dataclasses.dataclass
class Item:
    """Of an order."""

    name: str
    count: int


@attrs.frozen
class Parcel:
    """Of a delivery."""

    name: str
    due: date | None


class Point(NamedTuple):
    """On a map."""

    x: int
    y: int


@dataclasses.dataclass
class Box(Generic[T]):
    """Of anything."""

    content: T


class Guest(pydantic.BaseModel):
    """Of a hotel."""

    name: str
