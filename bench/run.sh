#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [OPTION...] - measures ckpt side by side with cp and torch; bench/README.md has the rules.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "run.sh: needs python3" >&2; exit 2; }
exec python3 "$here/measure.py" "$@"
