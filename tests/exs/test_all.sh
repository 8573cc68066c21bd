#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs all test programs of this directory, or of $EXS_TEST_PROGRAMS, and hands its own options to each. What others stand on
# comes first; if that fails there is no use in the rest.

cd "${EXS_TEST_PROGRAMS:-.}" || exit 1
EXS_TEST_LOG=${EXS_TEST_LOG:-$PWD/exs_test.log}
export EXS_TEST_LOG
: >"$EXS_TEST_LOG" || exit 1
status=0

for name in init socket; do
	if ! ./test_exs_$name "$@"; then
		echo "Initialization failed: the other tests are not run. FAIL"
		exit 1
	fi
done

for name in bind listen connect blocking_connect accept blocking_accept \
	mregister mderegister qcreate qdelete qdequeue qstatus qmodify \
	send recv sendfile recvfile blocking_send blocking_recv read write blocking_sendfile blocking_recvfile \
	shutdown close blocking_close fcntl \
	integration mixed threads transfer killed crowd figures; do
	./test_exs_$name "$@" || status=1
done
exit $status
