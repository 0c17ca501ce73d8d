"""What the scripts run: arguments in, one call, a message and an exit code out."""
