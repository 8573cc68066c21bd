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
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
{ "$here/test_all.sh" "$@" 2>&1 || echo "a test program ended badly: FAIL"; } | tee "$output"
if grep -q FAIL "$output"; then
	exit 1
fi
exit 0
