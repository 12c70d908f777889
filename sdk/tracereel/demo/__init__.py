"""Demo agents for recording, with scripted models and no network."""
