## SPDX-License-Identifier: MIT
## Documents that link to other files are installed with links to where those are installed: policies and the header have folders of their
## own, and of what is not installed as a document, as manual pages are not, the text of the link is left.
weirdocdir = $(docdir)/doc
weirdoc_DATA = \
	doc/installed/architecture.md \
	doc/installed/cuda.md \
	doc/installed/performance.md \
	doc/installed/policy.md \
	doc/installed/protocol.md \
	doc/installed/pytorch.md \
	doc/installed/python-sharing.md \
	doc/installed/python-trace.md \
	doc/installed/several-processes.md \
	doc/installed/simulator.md \
	doc/installed/thread-safety.md \
	doc/installed/trace.md \
	doc/installed/tuning.md \
	doc/installed/unaware.md
dist_weirdoc_DATA = %reldir%/house.svg %reldir%/page.png %reldir%/unaware-frees.png %reldir%/unaware-segments.png
doc_DATA += doc/installed/README.md
documents = README.md doc/architecture.md doc/cuda.md doc/performance.md doc/policy.md doc/protocol.md doc/python-sharing.md doc/python-trace.md doc/pytorch.md doc/several-processes.md \
	doc/simulator.md doc/thread-safety.md doc/trace.md doc/tuning.md doc/unaware.md
EXTRA_DIST += $(documents)
CLEANFILES += $(weirdoc_DATA) doc/installed/README.md

$(weirdoc_DATA) doc/installed/README.md: $(documents) Makefile
	$(AM_V_at)$(MKDIR_P) doc/installed
	$(AM_V_GEN)name=$(@F) && from=$(srcdir)/doc/$$name && { test -e $$from || from=$(srcdir)/$$name; } && \
	sed -e 's|](\(\.\./\)*config/|]($(weirconfdir)/|g' -e 's|](include/weir\.h)|]($(includedir)/weir.h)|g' \
	    -e 's|!*\[\([^]]*\)\](\(\.\./\)*man/[^)]*)|\1|g' -e 's|!*\[\([^]]*\)\](\(\.\./\)*bench/[^)]*)|\1|g' \
	    $$from >$@.new && mv $@.new $@
