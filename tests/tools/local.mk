## SPDX-License-Identifier: MIT
dist_check_SCRIPTS += \
	%reldir%/check.sh \
	%reldir%/devices.sh \
	%reldir%/output.sh \
	%reldir%/show.sh \
	%reldir%/try.sh \
	%reldir%/usage.sh
EXTRA_DIST += %reldir%/weir.sh
TESTS += \
	%reldir%/check.sh \
	%reldir%/devices.sh \
	%reldir%/output.sh \
	%reldir%/show.sh \
	%reldir%/try.sh \
	%reldir%/usage.sh
