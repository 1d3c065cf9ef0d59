# SPDX-License-Identifier: MIT
"""The version of the package, which is that of the library it belongs to."""

VERSION = "0.2.0"
