#!/bin/sh
# Starts the device, and has the steps that follow see it:
#   FERROCE_OPTIONS  of `ferroce up`, such as --netdev eth0; may be empty
set -eu

# Words, as the command takes them.
# shellcheck disable=SC2086
ferroce up ${FERROCE_OPTIONS:-}
variables=$(ferroce env --github)
printf '%s\n' "$variables" >>"$GITHUB_ENV"
ferroce devices
