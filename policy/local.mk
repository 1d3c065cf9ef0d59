## SPDX-License-Identifier: MIT
noinst_LTLIBRARIES += policy/libpolicy.la
policy_libpolicy_la_SOURCES = %reldir%/policy.h
policy_libpolicy_la_CFLAGS = $(AM_CFLAGS) $(YAML_CFLAGS)
policy_libpolicy_la_LIBADD = $(YAML_LIBS)
