"""Lists the campaigns: `python -m tests.campaigns`."""

import sys

import tests.campaigns

sys.stdout.write(f"{tests.campaigns.__doc__}\n")
