"""How other instrumentations say what we say: one table of names, and the SQL that is made of it."""
