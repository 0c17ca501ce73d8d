"""What the scripts run: each command parses its arguments, does its work, and returns an exit code.

Read train.py, translate.py (with sources.py and output.py) and evaluate.py. run.py and signals.py hold what all of them
share, options.py kinds of options, and what the last two share. spawn.py starts the other processes of a training,
which run spawned.py. split.py divides a corpus before all of this.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - a clone can be run by any Python, and the errors of syntax say nothing
    print(
        f"error: Python 3.10 or later is needed, but {sys.executable} is {sys.version.split()[0]}; use the environment "
        "of the README, .venv/bin/python",
        file=sys.stderr,
    )
    sys.exit(2)
