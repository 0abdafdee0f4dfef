# What there is to do here. `make run` and `make test` work on a Debian machine that has Rust, make, git and a C compiler;
# they install what else is missing.

.PHONY: help run build needs test lint fuzz bench bench-rules bench-fastpath clean

help:
	@echo 'make run     build Headgate and run it on examples/quickstart.yaml'
	@echo 'make test    run all tests'
	@echo 'make lint    check form, lints and documentation'
	@echo 'make bench   measure against other proxies (about 25 minutes; benches/README.md)'
	@echo 'make bench-rules  measure the rules engine (about 20 minutes)'
	@echo 'make bench-fastpath  measure the fast path beside the kernel and nftables (about 45 minutes, as root)'
	@echo 'make fuzz    fuzz each parser for a minute (needs a nightly compiler and cargo-fuzz)'

run: build
	@.ci/need openssl=openssl
	@examples/quickstart.sh

# What compiling takes: clang for the eBPF programs, the libraries for what loads them.
needs:
	@.ci/need cargo=cargo cc=gcc make=make pkg-config=pkg-config clang-19=clang-19 \
	    /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev

build: needs
	cargo build --release --package headgate

# The end-to-end tests use the program as it was built here.
test: needs
	@tests/tools.sh
	cargo build --workspace --all-targets
	HEADGATE_BIN=$${CARGO_TARGET_DIR:-$(CURDIR)/target}/debug/headgate cargo test --workspace --quiet
	@# What the verifier made of each program.
	cargo test --package fastpath --test verified --quiet -- --nocapture

lint: needs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet

bench: build
	cargo run --release --package headgate-benches

bench-rules: build
	@.ci/need tclsh8.6=tcl8.6
	cargo run --release --package headgate-benches --bin bench-rules

bench-fastpath: needs
	@.ci/need ip=iproute2 ethtool=ethtool nft=nftables chrt=util-linux
	cargo run --release --package headgate-benches --bin bench-fastpath

fuzz:
	cd fuzz && for target in targets/*.rs; do \
	    cargo +nightly fuzz run $$(basename $$target .rs) -- -max_total_time=60 || exit 1; done

clean:
	cargo clean
