"""Content of one step: what was said to and by a model, tool or agent, from events and spans."""
