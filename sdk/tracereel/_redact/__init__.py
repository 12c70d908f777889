"""Conversion of values to bounded plain data, and redaction."""
