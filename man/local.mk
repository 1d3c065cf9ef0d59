## SPDX-License-Identifier: MIT
dist_man_MANS += %reldir%/libweir.3 %reldir%/weir-share.7
man_MANS += man/weir-policy.5
EXTRA_DIST += %reldir%/weir-policy.5.in
CLEANFILES += man/weir-policy.5

## The keys come from the table that drives the parser, so that the page cannot lag behind the program.
man/weir-policy.5: %reldir%/weir-policy.5.in tools/generate$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) man && rm -f $@
	$(AM_V_at)$(GENERATE) man >$@.keys
	$(AM_V_GEN)sed -e '/^\.\\" .KEYS.$$/r $@.keys' -e '/^\.\\" .KEYS.$$/d' -e 's|[@]datadir[@]|$(datadir)|' \
	    $(srcdir)/%reldir%/weir-policy.5.in >$@.new && mv $@.new $@
	$(AM_V_at)rm -f $@.keys
