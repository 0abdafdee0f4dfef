#!/usr/bin/env bash
# Run one of the proxies that apply the HMAC cookie logic, in the foreground. Its first port goes past the rule, its second
# through it.
# Usage: start.sh headgate|haproxy|haproxy-native|nginx-lua|nginx-js|envoy PORT
# $ORIGIN: the origin's port (7001); $HEADGATE: the program; $RULES: the folder with the rules that Headgate runs.
set -euo pipefail

peer=${1:?which peer}
port=${2:?which port}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
cache=$(realpath -m "${HEADGATE_CACHE:-$root/.cache}")

# HAProxy and nginx live in a root of their own and see only what is below it.
fill() { # folder to write to, the same folder as the peer sees it, files
    local to=$1 seen=$2 file
    mkdir -p "$to"
    shift 2
    for file in "$@"; do
        sed -e "s#@DIR@#$seen#g" -e "s#@THREADS@#1#g" -e "s#@ORIGIN@#${ORIGIN:-7001}#g" \
            -e "s#@OFF@#$port#g" -e "s#@ON@#$((port + 1))#g" \
            -e "s#@RULES@#${RULES:-$root/../shared/fixtures/irules}#g" "$file" >"$to/${file##*/}"
    done
}

cd "$here"
run=${RUN:-}
sid=$cache/sid
own=$cache/run/rules
case $peer in
    headgate)
        fill "$own" "$own" headgate.yaml
        exec $run "${HEADGATE:-$root/target/release/headgate}" run -c "$own/headgate.yaml"
        ;;
    haproxy)
        fill "$sid/bench/rules" /bench/rules haproxy.cfg haproxy.lua
        exec $run chroot "$sid" /usr/sbin/haproxy -db -f /bench/rules/haproxy.cfg
        ;;
    haproxy-native)
        fill "$sid/bench/rules" /bench/rules haproxy-native.cfg
        exec $run chroot "$sid" /usr/sbin/haproxy -db -f /bench/rules/haproxy-native.cfg
        ;;
    nginx-lua)
        fill "$sid/bench/rules" /bench/rules nginx-lua.conf nginx-lua.lua
        exec $run chroot "$sid" /usr/sbin/nginx -c /bench/rules/nginx-lua.conf
        ;;
    nginx-js)
        fill "$sid/bench/rules" /bench/rules nginx-js.conf nginx-js.js
        exec $run chroot "$sid" /usr/sbin/nginx -c /bench/rules/nginx-js.conf
        ;;
    envoy)
        fill "$own" "$own" envoy.yaml envoy.lua
        exec $run "$cache/envoy/envoy" -c "$own/envoy.yaml" --concurrency 1 --disable-hot-restart -l error
        ;;
    *)
        echo "unknown peer $peer" >&2
        exit 2
        ;;
esac
