"""Content of one step: input and output of a model, tool or agent, from events and spans."""
