"""Schema 5: rate limits count what is handed to workers."""

from __future__ import annotations

from typing import Final

__all__ = ["V5"]

#: `unpolled` is a JSON list of the lanes that a line passes over. Who was a member before has no lane until its offer ends.
V5: Final = """
ALTER TABLE limits ADD COLUMN unpolled TEXT;
ALTER TABLE limits ADD COLUMN read_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN boot TEXT NOT NULL DEFAULT '';
ALTER TABLE limits ADD COLUMN steady INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limit_members ADD COLUMN lane TEXT NOT NULL DEFAULT '';
CREATE INDEX limits_unpolled ON limits (key) WHERE unpolled IS NOT NULL;
CREATE INDEX limit_members_lane ON limit_members (key, lane, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
"""
