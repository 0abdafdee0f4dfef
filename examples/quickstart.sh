#!/usr/bin/env bash
# What `make run` starts: two origins, and Headgate in front of them on examples/quickstart.yaml. Ctrl-C ends it all.
set -euo pipefail
cd "$(dirname "$0")/.."

headgate=${HEADGATE_BIN:-target/release/headgate}
export HEADGATE_DEMO=${HEADGATE_DEMO:-/tmp/headgate-quickstart}

umask 077
mkdir -p "$HEADGATE_DEMO"
if ! [ -O "$HEADGATE_DEMO" ]; then
    echo "$HEADGATE_DEMO belongs to somebody else; set HEADGATE_DEMO to another folder" >&2
    exit 1
fi
if ! [ -s "$HEADGATE_DEMO/key.pem" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -out "$HEADGATE_DEMO/cert.pem" -keyout "$HEADGATE_DEMO/key.pem" 2>/dev/null
fi

started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait' EXIT
trap 'exit 0' INT TERM

for origin in one:9001 two:9002; do
    name=${origin%:*}
    "$headgate" origin --name "$name" --listen "127.0.0.1:${origin#*:}" &
    started+=($!)
    echo $! >"$HEADGATE_DEMO/$name.pid"
done
"$headgate" run -c examples/quickstart.yaml >"$HEADGATE_DEMO/access.log" &
gate=$!
started+=("$gate")

for _ in $(seq 100); do
    "$headgate" status -c examples/quickstart.yaml >/dev/null 2>&1 && break
    kill -0 "$gate" 2>/dev/null || exit 1
    sleep 0.1
done

cat <<TEXT

Headgate is running. In another terminal:

  try it         curl http://127.0.0.1:8080/
                 curl --cacert $HEADGATE_DEMO/cert.pem https://localhost:8443/
  look at it     $headgate status -c examples/quickstart.yaml
                 $headgate top -c examples/quickstart.yaml
                 curl http://127.0.0.1:9900/metrics
                 tail -f $HEADGATE_DEMO/access.log
  break it       kill \$(cat $HEADGATE_DEMO/one.pid)      (an origin is gone; go on asking)
                 $headgate origin --name one --listen 127.0.0.1:9001      (it is back)
  change it      edit examples/quickstart.yaml; it is taken over when it is good

README.md has a tour of five minutes. Ctrl-C ends it all.

TEXT
wait "$gate"
