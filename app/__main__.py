"""`python -m app` and the script `coppice`: read the command line, then open the window."""

import sys

from app.main import main

if __name__ == "__main__":
    sys.exit(main())
