"""Definitions examined once and compiled once; what tells two of them apart."""
