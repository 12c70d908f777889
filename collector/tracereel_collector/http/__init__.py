"""Routes, one module per resource; the only package that imports FastAPI."""
