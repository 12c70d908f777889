"""Fleet replay: many recorded runs executed again with the code of a working tree.

`pull` writes the tapes of chosen runs into a file, `runner` executes them in worker processes,
`groups` sorts their verdicts by cause.
"""
