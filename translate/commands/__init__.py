"""What the scripts run: each command parses its arguments, makes one call, and returns an exit code."""
