"""Conductor's REST API over an engine: `rest_app(engine)`."""

from conductorlite.server.rest.app import rest_app

__all__ = ["rest_app"]
