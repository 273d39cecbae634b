"""How much each head or neuron matters: one method a file, found by the name it has in YAML.

Each file holds `score(subject) -> [tensor a present layer]`; units with the lowest scores go first. To add one, write
`compress/scores/NAME.py` and add NAME to the choices of `score` in the steps it fits.
"""
