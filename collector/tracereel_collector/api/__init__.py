"""The only room that knows FastAPI: one file per surface."""
