#!/usr/bin/env bash
# Installs the programs that the end-to-end tests use. nginx is unpacked into .cache and not installed, since its package
# starts a server.
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/need curl=curl openssl=openssl h2load=nghttp2-client ip=iproute2 prlimit=util-linux capsh=libcap2-bin

tools=.cache/test-tools
if ! [ -x "$tools/nginx/usr/sbin/nginx" ] && ! command -v nginx >/dev/null; then
    mkdir -p "$tools"
    (
        cd "$tools"
        if ! apt-get download -qq nginx 2>/dev/null; then
            as_root=()
            [ "$(id -u)" -eq 0 ] || as_root=(sudo)
            "${as_root[@]}" apt-get update -qq
            apt-get download -qq nginx
        fi
        dpkg -x nginx_*.deb nginx
    )
fi
