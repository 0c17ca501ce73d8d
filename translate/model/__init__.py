"""The transformer: attention, positions, layers, the whole, and the builder that reads the settings."""
