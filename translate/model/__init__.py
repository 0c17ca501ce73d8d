"""The transformer: attention, positions, layers, the whole, and the builder that reads the settings.

Read attention.py, positions.py, layers.py and transformer.py, then build.py. classifier.py is the encoder alone.
dropout.py, rows.py and projection.py make training faster; plain.py switches that off. At a first reading, take
`self.as_rows(x)` for x as a matrix with a row for each position, and `positions_of` for the way back.
"""
