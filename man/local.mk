## SPDX-License-Identifier: MIT
dist_man_MANS += %reldir%/libweir.3
man_MANS += man/weir-policy.5
EXTRA_DIST += %reldir%/weir-policy.5.in %reldir%/keys.awk doc/architecture.md doc/thread-safety.md
CLEANFILES += man/weir-policy.5

## The keys come from the table that drives the parser, so that the page cannot lag behind the program.
man/weir-policy.5: %reldir%/weir-policy.5.in %reldir%/keys.awk policy/generate$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) man && rm -f $@
	$(AM_V_at)policy/generate$(EXEEXT) man >$@.keys
	$(AM_V_GEN)$(AWK) -f $(srcdir)/%reldir%/keys.awk $@.keys >$@.mdoc && \
	  sed -e '/^\.\\" .KEYS.$$/r $@.mdoc' -e '/^\.\\" .KEYS.$$/d' -e 's|[@]datadir[@]|$(datadir)|' \
	    $(srcdir)/%reldir%/weir-policy.5.in >$@.new && \
	  mv $@.new $@
	$(AM_V_at)rm -f $@.keys $@.mdoc
