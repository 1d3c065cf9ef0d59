## SPDX-License-Identifier: MIT
## Checks of the build itself; they need no libcheck.
dist_check_SCRIPTS += \
	%reldir%/cmake.sh \
	%reldir%/commands.sh \
	%reldir%/documents.sh \
	%reldir%/quickstart.sh \
	%reldir%/symbols.sh \
	%reldir%/header.sh \
	%reldir%/house.sh \
	%reldir%/instructions.sh
TESTS += \
	%reldir%/cmake.sh \
	%reldir%/commands.sh \
	%reldir%/documents.sh \
	%reldir%/quickstart.sh \
	%reldir%/symbols.sh \
	%reldir%/header.sh \
	%reldir%/house.sh \
	%reldir%/instructions.sh
EXTRA_DIST += %reldir%/tap.sh %reldir%/coverage.sh %reldir%/weir.abi %reldir%/weir_sleep.abi %reldir%/weir_trace.abi
