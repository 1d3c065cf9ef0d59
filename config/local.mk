## SPDX-License-Identifier: MIT
## Ready-made policies, installed where `weir show` and people find them.
weirconfdir = $(datadir)/weir
dist_weirconf_DATA = \
	%reldir%/default.yaml \
	%reldir%/inference.yaml \
	%reldir%/multi-gpu.yaml \
	%reldir%/shared.yaml \
	%reldir%/training.yaml
