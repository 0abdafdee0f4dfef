#!/usr/bin/env bash
# Installs the programs that the end-to-end tests use. nginx and BIRD are unpacked into .cache and not installed, since their
# packages start servers.
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/need curl=curl openssl=openssl h2load=nghttp2-client ip=iproute2 prlimit=util-linux nsenter=util-linux capsh=libcap2-bin \
    ping=iputils-ping traceroute=traceroute ethtool=ethtool

tools=.cache/test-tools
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

# unpack PACKAGE FOLDER
unpack() {
    mkdir -p "$tools"
    (
        cd "$tools"
        if ! apt-get download -qq "$1" 2>/dev/null; then
            "${as_root[@]}" apt-get update -qq
            apt-get download -qq "$1"
        fi
        dpkg -x "$1"_*.deb "$2"
    )
}

if ! [ -x "$tools/nginx/usr/sbin/nginx" ] && ! command -v nginx >/dev/null; then
    unpack nginx nginx
fi
if ! [ -x "$tools/bird/usr/sbin/bird" ] && ! command -v bird >/dev/null; then
    unpack bird2 bird
fi
# BIRD's libraries start nothing.
bird=$(command -v bird || echo "$tools/bird/usr/sbin/bird")
if ldd "$bird" | grep -q 'not found'; then
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends libssh-gcrypt-4 libreadline8 >/dev/null
fi
