#!/usr/bin/env bash
# Run one peer in the foreground, its configuration filled in.
# Usage: start.sh PEER [workers]     PEER is headgate, haproxy, nginx, envoy or pingora (or relay, the reactor's bare one)
#
# Each peer listens on ports of its own from $PORT_BASE (8100 headgate, 8200 haproxy, 8300 nginx, 8400 envoy, 8500 pingora, 8600 relay):
#   +0 http   +1 http, set for large bodies   +2 TLS, P-256   +3 TLS, RSA-2048   +4 TLS, re-encrypted to the origin   +5 TCP
# and asks the origin at $ORIGIN (7001) and over TLS at $ORIGIN_TLS (7002).
# $RUN, if set, is a command to run the peer under (say "strace -c -f").
set -euo pipefail

peer=${1:?which peer}
workers=${2:-1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$(realpath -m "${HEADGATE_CACHE:-$root/.cache}")
ulimit -n 200000 2>/dev/null || ulimit -n "$(ulimit -Hn)"
"$here/certs.sh"

case $peer in
    headgate) base=8100 ;;
    haproxy) base=8200 ;;
    nginx) base=8300 ;;
    envoy) base=8400 ;;
    pingora) base=8500 ;;
    relay) base=8600 ;;
    *) echo "unknown peer $peer" >&2; exit 2 ;;
esac
base=${PORT_BASE:-$base}

# HAProxy and nginx live in a root of their own and see only what is below it.
fill() { # template, folder to write to, the same folder as the peer sees it
    mkdir -p "$2"
    cp "$cache"/certs/*.pem "$2/"
    sed -e "s#@DIR@#$3#g" -e "s#@THREADS@#$workers#g" \
        -e "s#@ORIGIN@#${ORIGIN:-7001}#g" -e "s#@ORIGIN_TLS@#${ORIGIN_TLS:-7002}#g" \
        -e "s#@HTTP@#$base#g" -e "s#@HTTP_LARGE@#$((base + 1))#g" -e "s#@TLS_P256@#$((base + 2))#g" \
        -e "s#@TLS_RSA@#$((base + 3))#g" -e "s#@REENCRYPT@#$((base + 4))#g" -e "s#@TCP@#$((base + 5))#g" \
        "$here/$1" >"$2/$1"
}

run=${RUN:-}
case $peer in
    headgate)
        fill headgate.yaml "$cache/run" "$cache/run"
        exec $run "${HEADGATE:-$root/target/release/headgate}" run -c "$cache/run/headgate.yaml"
        ;;
    haproxy)
        fill haproxy.cfg "$cache/sid/bench" /bench
        exec $run chroot "$cache/sid" /usr/sbin/haproxy -db -f /bench/haproxy.cfg
        ;;
    nginx)
        fill nginx.conf "$cache/sid/bench" /bench
        exec $run chroot "$cache/sid" /usr/sbin/nginx -c /bench/nginx.conf
        ;;
    envoy)
        fill envoy.yaml "$cache/run" "$cache/run"
        exec $run "$cache/envoy/envoy" -c "$cache/run/envoy.yaml" --concurrency "$workers" --disable-hot-restart -l error
        ;;
    pingora)
        exec $run "$cache/pingora-proxy" "$workers" "$base" "${ORIGIN:-7001}"
        ;;
    relay)
        exec $run "${RELAY:-$root/target/release/examples/relay}" "127.0.0.1:$base" "127.0.0.1:${ORIGIN:-7001}"
        ;;
esac
