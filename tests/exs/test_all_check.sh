#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# For a build system: 0 if all tests passed, 1 if one failed or could not be run.

here=$(cd "$(dirname "$0")" && pwd) || exit 1
programs=${EXS_TEST_PROGRAMS:-.}
if [ ! -x "$programs/test_exs_init" ]; then
	echo "$programs/test_exs_init is not built: FAIL"
	exit 1
fi
output=$("$here/test_all.sh" "$@" 2>&1)
status=$?
printf '%s\n' "$output"
if [ $status -ne 0 ] || printf '%s\n' "$output" | grep -q FAIL; then
	exit 1
fi
exit 0
