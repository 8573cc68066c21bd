#!/bin/sh
# Puts the command `ferroce` into the PATH of the steps that follow, as action.yml says:
#   FERROCE_SOURCE    wheel, deb or path: what FERROCE_FROM is
#   FERROCE_FROM      a wheel or a Debian package, as a file or an address; or the prefix of an installation
#   FERROCE_PACKAGES  Debian packages to install beside it, such as perftest; may be empty
set -eu

refuse() {
    echo "ferroce: $1" >&2
    exit 2
}

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 "$@"; }

[ -n "${GITHUB_PATH:-}" ] || refuse "GITHUB_PATH is not set: this is for GitHub's runner, others find their recipe in docs/ci.md"
[ -n "${FERROCE_FROM:-}" ] || refuse "the input \`from\` is empty: name a wheel, a Debian package, or the prefix of an installation"

# Words, as apt-get takes them.
# shellcheck disable=SC2086
if [ -n "${FERROCE_PACKAGES:-}" ]; then
    apt update
    apt install --no-install-recommends $FERROCE_PACKAGES
fi

case ${FERROCE_SOURCE:-} in
wheel)
    # An environment of its own: the machine's Python may be managed by somebody else.
    place=${RUNNER_TEMP:-/tmp}/ferroce-wheel
    python3 -m venv "$place"
    "$place/bin/pip" install --quiet "$FERROCE_FROM"
    bin=$place/bin
    ;;
deb)
    file=$FERROCE_FROM
    case $file in
    *://*)
        file=${RUNNER_TEMP:-/tmp}/ferroce.deb
        curl --fail --silent --show-error --location --output "$file" "$FERROCE_FROM"
        ;;
    esac
    [ -f "$file" ] || refuse "$file is no file"
    apt install --no-install-recommends "$(realpath "$file")"
    bin=/usr/bin
    ;;
path)
    bin=$FERROCE_FROM/bin
    ;;
*)
    refuse "the input \`source\` is \`${FERROCE_SOURCE:-}\`: it must be wheel, deb or path"
    ;;
esac

[ -x "$bin/ferroce" ] || refuse "there is no program $bin/ferroce: is \`from\` what \`source\` says?"
"$bin/ferroce" --version
echo "$bin" >>"$GITHUB_PATH"
