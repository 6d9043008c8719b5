"""Search: what is asked (a query, free text, a sort), what is asked about (documents), and whether one answers the other.

    fields      which fields executions and tasks are found by, and what they hold
    query       the language: text → a frozen tree, or InvalidQuery with the place
    words       free text: words, phrases, beginnings of words
    documents   what is found of an execution or an attempt
    matching    whether a document answers a search: what an index must agree with

Pure: an index renders the same tree in its own language, and the property that it answers as `matching` does is a test.
"""

from __future__ import annotations

from conductorlite.search.asked import Asked, asked
from conductorlite.search.documents import Document, task_document, workflow_document
from conductorlite.search.fields import TASKS, WORKFLOWS, Subject
from conductorlite.search.matching import answer, matches, page_of
from conductorlite.search.query import And, Compare, Condition, Not, Or, parse_query
from conductorlite.search.results import SearchResult, TaskSummary, WorkflowSummary
from conductorlite.search.words import Phrase, free_text

__all__ = [
    "TASKS",
    "WORKFLOWS",
    "And",
    "Asked",
    "Compare",
    "Condition",
    "Document",
    "Not",
    "Or",
    "Phrase",
    "SearchResult",
    "Subject",
    "TaskSummary",
    "WorkflowSummary",
    "answer",
    "asked",
    "free_text",
    "matches",
    "page_of",
    "parse_query",
    "task_document",
    "workflow_document",
]
