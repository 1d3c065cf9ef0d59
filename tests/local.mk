## SPDX-License-Identifier: MIT
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TEST_LOG_DRIVER)
TEST_EXTENSIONS = .sh
SH_LOG_DRIVER = $(TEST_LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL)
## Nothing of the person who runs the tests reaches them: neither the language, in which [a-z] may lack letters, nor variables that Weir or the
## tools read, nor the rank and the limits of a job.
tests_unset = LANGUAGE POSIXLY_CORRECT CDPATH ENV BASH_ENV GREP_OPTIONS COLUMNS NO_COLOR DEBUGINFOD_URLS \
	WEIR_AUDIT WEIR_AUDIT_LIBRARY LD_AUDIT GLIBC_TUNABLES WEIR_POLICY WEIR_POLICY_DIR WEIR_CONF WEIR_SIM WEIR_COSTS_DIR WEIR_LOG WEIR_QUOTA WEIR_RESERVATION WEIR_RUN_TOLD WEIR_TORCH_LIBRARY WEIR_TORCH_PATCH WEIR_PYTHON_DIR \
	XDG_CACHE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONWARNINGS PYTORCH_ALLOC_CONF \
	PYTORCH_CUDA_ALLOC_CONF VIRTUAL_ENV CONDA_PREFIX RANK WORLD_SIZE LOCAL_RANK SLURM_PROCID SLURM_LOCALID SLURM_JOB_ID OMPI_COMM_WORLD_RANK \
	OMPI_COMM_WORLD_LOCAL_RANK TORCHELASTIC_RUN_ID POD_NAME KUBERNETES_SERVICE_HOST CUDA_MPS_PIPE_DIRECTORY \
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_DEVICE_MEMORY_LIMIT CUDA_DEVICE_MEMORY_LIMIT_0 CUDA_DEVICE_MEMORY_LIMIT_1
## Whoever runs out of memory in a test asks no neighbour but those of that test, which then says where they lie.
## Some tests kill processes of a tree with --enable-coverage: what these were counting at that moment is lost, and others would complain of it
## on their standard error, which tests look at.
AM_TESTS_ENVIRONMENT = \
	GCOV_ERROR_FILE='$(abs_builddir)/gcov-errors.log'; export GCOV_ERROR_FILE; \
	CK_TAP_LOG_FILE_NAME=-; export CK_TAP_LOG_FILE_NAME; \
	CK_TIMEOUT_MULTIPLIER=$${CK_TIMEOUT_MULTIPLIER:-4}; export CK_TIMEOUT_MULTIPLIER; \
	WEIR_GPU=$${WEIR_TEST_GPU:-sim}; export WEIR_GPU; \
	unset $(tests_unset); \
	test "$$WEIR_GPU" = cuda || unset CUDA_VISIBLE_DEVICES; \
	LC_ALL=C; export LC_ALL; \
	WEIR_CONTROL_DIR=/nonexistent; export WEIR_CONTROL_DIR; \
	top_srcdir='$(top_srcdir)' top_builddir='$(top_builddir)'; export top_srcdir top_builddir;

include tests/cxx/local.mk
include tests/python/local.mk
include tests/audit/local.mk

if HAVE_CHECK
check_LTLIBRARIES += tests/support/libsuite.la
tests_support_libsuite_la_SOURCES = %reldir%/support/suite.c %reldir%/support/suite.h
tests_support_libsuite_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_support_libsuite_la_LIBADD = $(CHECK_LIBS)

## Those that wait long or count much begin first, the longest before all, so that none is left alone at the end. Their folders say
## how they are built.
TESTS += \
	tests/tools/leases.sh \
	tests/tools/processes.sh \
	tests/tools/sleep.sh \
	tests/share/neighbours \
	tests/share/sweep \
	tests/share/neighbours_wait \
	tests/share/flow \
	tests/bench/torch.sh \
	tests/tools/tune.sh \
	tests/tools/tune_parts.sh \
	tests/share/hand_over \
	tests/share/neighbours_die \
	tests/share/retire \
	tests/tools/metrics.sh \
	tests/share/rings \
	tests/tools/try.sh \
	tests/tools/record.sh \
	tests/tools/why.sh \
	tests/api/failures \
	tests/chaos/chaos \
	tests/share/gpu \
	tests/share/ends

include tests/unit/local.mk
include tests/gpu/local.mk
include tests/api/local.mk
include tests/share/local.mk
include tests/plugin/local.mk
include tests/tools/local.mk
include tests/fuzz/local.mk
include tests/bench/local.mk
include tests/chaos/local.mk
endif
