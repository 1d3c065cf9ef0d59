## SPDX-License-Identifier: MIT
## Ready-made policies, installed together with the schema that their first line names.
weirconfdir = $(datadir)/weir
dist_weirconf_DATA = \
	%reldir%/default.yaml \
	%reldir%/inference.yaml \
	%reldir%/multi-gpu.yaml \
	%reldir%/shared.yaml \
	%reldir%/training.yaml \
	%reldir%/weir.schema.json
