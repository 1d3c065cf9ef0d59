## SPDX-License-Identifier: MIT
## Ready-made policies, installed together with the schema that their first line names; and a dashboard for what `weir metrics` prints.
weirconfdir = $(datadir)/weir
dist_weirconf_DATA = \
	%reldir%/default.yaml \
	%reldir%/grafana.json \
	%reldir%/inference.yaml \
	%reldir%/multi-gpu.yaml \
	%reldir%/pytorch.yaml \
	%reldir%/shared.yaml \
	%reldir%/shared-gpu.yaml \
	%reldir%/training.yaml \
	%reldir%/weir.schema.json

## What calls cost on GPUs that were measured, each in a file of the GPU's name.
weircostsdir = $(weirconfdir)/costs
dist_weircosts_DATA = %reldir%/costs/nvidia-h200.yaml

dist_check_SCRIPTS += tests/tools/policies.sh
TESTS += tests/tools/policies.sh

## Made by configure, as its folder is a system's and not Weir's.
if WANT_TMPFILES
tmpfiles_DATA = config/weir.conf
endif
