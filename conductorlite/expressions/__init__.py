"""Expressions: `${…}` templates, conditions behind one evaluator seam, and WAIT's durations and dates."""

from conductorlite.expressions.conditions import (
    EVALUATORS,
    Condition,
    Evaluator,
    compile_condition,
    is_true,
)
from conductorlite.expressions.durations import parse_duration, parse_until
from conductorlite.expressions.expansion import expanded
from conductorlite.expressions.reads import Reads
from conductorlite.expressions.sources import MISSING, Json, MappingSource, Missing, Source
from conductorlite.expressions.templates import (
    InputTemplate,
    Template,
    apply_workflow_input_template,
    compile_input,
    compile_template,
)
from conductorlite.expressions.text import to_text

__all__ = [
    "EVALUATORS",
    "MISSING",
    "Condition",
    "Evaluator",
    "InputTemplate",
    "Json",
    "MappingSource",
    "Missing",
    "Reads",
    "Source",
    "Template",
    "apply_workflow_input_template",
    "compile_condition",
    "compile_input",
    "compile_template",
    "expanded",
    "is_true",
    "parse_duration",
    "parse_until",
    "to_text",
]
