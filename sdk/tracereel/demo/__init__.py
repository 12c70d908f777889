"""A small agent pipeline to record: appointment booking with a scripted model, no network."""
