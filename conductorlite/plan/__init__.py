"""Definitions examined once and compiled once; how two of them differ."""
