"""Dialects of other instrumentations: a table of attribute names, and the SQL generated from it."""
