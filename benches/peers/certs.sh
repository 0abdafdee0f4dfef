#!/usr/bin/env bash
# Make the certificates of the measurements, once, in .cache/certs (or $HEADGATE_CACHE/certs): an authority and, signed by
# it, a P-256 and an RSA-2048 certificate for bench.test. NAME-all.pem is certificate and key in one, as HAProxy wants it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${HEADGATE_CACHE:-$here/../../.cache}/certs
mkdir -p "$dir"
exec 9>"$dir/.lock" # several peers may start at once
flock 9
[ ! -e "$dir/rsa-all.pem" ] || exit 0
cd "$dir"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca-key.pem -out ca.pem -days 3650 \
    -subj "/CN=Headgate measurements" -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null

sign() { # name, then what makes the key
    local name=$1
    shift
    openssl genpkey "$@" -out "$name-key.pem" 2>/dev/null
    openssl req -new -key "$name-key.pem" -subj "/CN=bench.test" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 3650 -out "$name.pem" -extfile <(
        printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n'
        printf 'subjectAltName=DNS:bench.test,DNS:localhost,IP:127.0.0.1\n'
    ) 2>/dev/null
    cat "$name.pem" "$name-key.pem" >"$name-all.pem"
    rm "$name.csr"
}
sign p256 -algorithm EC -pkeyopt ec_paramgen_curve:P-256
sign rsa -algorithm RSA -pkeyopt rsa_keygen_bits:2048
chmod 644 ./*.pem
