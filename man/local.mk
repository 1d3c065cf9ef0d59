## SPDX-License-Identifier: MIT
dist_man_MANS += %reldir%/libweir.3
EXTRA_DIST += %reldir%/weir-policy.5.in %reldir%/keys.awk
