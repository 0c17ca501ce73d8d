"""The settings of a run, and how they are read.

Read schema.py and the files of its sections (data.py, text.py, model.py, training.py, decoding.py), which explain every
setting and are made of what section.py defines. Then read yaml_source.py (YAML to values that know where they were
written), merging.py (one layer of these over another), loading.py (files, what they extend, and overrides) and
problems.py (mistakes in the user's terms, with advice.py on what was meant). keys.py says which settings the schema has
where, key_paths.py what is at a path, foreign.py what settings are called elsewhere, and reference.py writes
docs/configuration.md.
"""
