"""The contract of a registry of schemas."""

from __future__ import annotations

from contextlib import suppress

from conductorlite.ports import Backend

__all__ = ["SchemaConformance"]


class SchemaConformance:
    """Registered schemas."""

    def test_schemas(self, backend: Backend) -> None:
        """Schemas are replaced by name and version, found by either or the highest, and are a change of the registry."""
        with backend.reading() as view:
            before = view.registry_version()
            assert (view.schema_def("order", None), list(view.schema_defs())) == (None, [])
        with backend.writing() as tx:
            for name, version, text in (("order", 2, "two"), ("order", 10, "ten"), ("a", 1, "a"), ("order", 2, "again")):
                tx.put_schema_def(name, version, text)
        with backend.reading() as view:
            assert (view.schema_def("order", None), view.schema_def("order", 2)) == ("ten", "again")
            assert (view.schema_def("order", 3), view.schema_def("x", None)) == (None, None)
            assert list(view.schema_defs()) == [("a", 1), ("order", 2), ("order", 10)]
            assert view.registry_version() > before

    def test_a_schema_that_is_not_committed_is_not_there(self, backend: Backend) -> None:
        """A change that raises leaves no schema behind."""
        with suppress(ZeroDivisionError), backend.writing() as tx:
            tx.put_schema_def("order", 1, "one")
            raise ZeroDivisionError
        with backend.reading() as view:
            assert list(view.schema_defs()) == []
