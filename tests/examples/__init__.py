"""The examples and what they leave behind."""
