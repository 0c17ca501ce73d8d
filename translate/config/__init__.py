"""The settings of a run (schema.py) and how they are read from YAML (loading.py)."""
