#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# `make check`: runs the scripts that it is given, of the programs in $OUT, and sums up as automake does. What they say goes to
# test-suite.log here.

[ $# -gt 0 ] || exit 0
passed=0
failed=0
: >test-suite.log || exit 1
for test; do
	if EXS_TEST_PROGRAMS=$OUT "./${test##*/}" >>test-suite.log 2>&1; then
		echo "PASS: $test"
		passed=$((passed + 1))
	else
		echo "FAIL: $test"
		failed=$((failed + 1))
	fi
done
line=============================================================================
cat <<END
$line
Testsuite summary for ferroce exs
$line
# TOTAL: $((passed + failed))
# PASS:  $passed
# SKIP:  0
# XFAIL: 0
# FAIL:  $failed
# XPASS: 0
# ERROR: 0
$line
END
if [ $failed -gt 0 ]; then
	echo "See ./test-suite.log"
	echo "$line"
	exit 1
fi
