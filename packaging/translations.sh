#!/usr/bin/env bash
# Brings the translations up to date with the words in app/ and compiles them; see translations.py.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="$here/../.venv/bin/python"
[ -x "$python" ] || python=python3
exec "$python" "$here/translations.py"
