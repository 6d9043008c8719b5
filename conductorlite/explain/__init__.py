"""Why an execution waits, or how it ended, in one paragraph that a person reads."""

from __future__ import annotations

from conductorlite.explain.admissions import Standing
from conductorlite.explain.causes import causes_of
from conductorlite.explain.telling import explain
from conductorlite.explain.words import span_in_words

__all__ = ["Standing", "causes_of", "explain", "span_in_words"]
