# SPDX-License-Identifier: MIT
"""export_test.py BUILD - traces in the formats of other tools, as these read them. Speaks TAP."""
import os
import sys

BUILD = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap  # noqa: E402
import export_viz_test  # noqa: E402,F401
import export_perfetto_test  # noqa: E402,F401

tap.main()
