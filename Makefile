# Cosy: what there is to make. 'make' alone tells.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test test-machines lint formatting clippy doc-comments shellcheck examples bench bench-counts fuzz fuzz-check install uninstall clean need-cargo need-cc need-mpi need-postgres need-python need-login need-containers need-fmt

# A toolchain that was just installed is not in PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

PREFIX ?= /usr/local
DESTDIR ?=
# More words for cargo, such as --locked or --offline.
CARGO_FLAGS ?=
# Seconds for each fuzz target, and which.
SECS ?= 60
TARGETS ?= local link peer pmi pmix judge rest
# Words for the benchmark.
ARGS ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
PROGRAMS := cosyd noded cosy cosy-sim cosy-web
# Short names of the commands; each is a link to cosy.
NAMES := csub cstat ctop cresv ccancel calloc cbcast chist cadm
# Slurm's names of commands, links too. yes, no, or auto: not where another sbatch is in
# PATH. With DESTDIR, where the building host's PATH says nothing, auto is no: say yes or no.
# A folder with nothing but them is installed always: $(LIBEXEC)/slurm.
SLURM ?= auto
SLURM_NAMES := sbatch srun salloc squeue scancel sinfo sacct scontrol sacctmgr sstat sprio \
  sshare sreport sdiag sattach sbcast strigger seff

BIN := $(DESTDIR)$(PREFIX)/bin
LIBEXEC := $(DESTDIR)$(PREFIX)/libexec/cosy
UNITS := $(DESTDIR)$(PREFIX)/lib/systemd/system
SYSUSERS := $(DESTDIR)$(PREFIX)/lib/sysusers.d
PLUGINS := $(DESTDIR)$(PREFIX)/share/cosy/plugins
# Where pam_cosy.so goes. Files of /etc/pam.d name it with its path, unless that is where the system's modules are.
PAMDIR ?= $(PREFIX)/lib/security
DOC := $(DESTDIR)$(PREFIX)/share/doc/cosy
MAN := $(DESTDIR)$(PREFIX)/share/man/man1
MAN8 := $(DESTDIR)$(PREFIX)/share/man/man8
BASH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

help:
	@echo "make demo       build, start a cluster of four nodes, run real jobs on it, stop it"
	@echo "make test       build and run the whole test suite"
	@echo "make build      build the programs: cosyd noded cosy cosy-web cosy-sim cosy-lua, and pam_cosy.so"
	@echo "make test-machines RUN='...'  real machines with systemd; RUN boots one (not part of test)"
	@echo "make lint       formatting, lints of Rust, links in doc comments, shell scripts"
	@echo "make examples   check the example configurations in etc/"
	@echo "make bench      benchmarks (ARGS='...' for words of its own)"
	@echo "make bench-counts  instructions of fixed pieces of work, against those written down"
	@echo "make fuzz       fuzz what faces hostile bytes (SECS=60 for each, TARGETS='...')"
	@echo "make install    install to PREFIX=$(PREFIX) (below DESTDIR= where packages are made)"
	@echo "make uninstall  remove what install put there; configuration and state stay"
	@echo "make clean      remove what was built"

# --- what is needed

need-cargo:
	@command -v cargo >/dev/null || { \
	  echo "A Rust toolchain (cargo, 1.90 or later) is needed and was not found in PATH."; \
	  echo "How to get one: https://www.rust-lang.org/tools/install"; exit 1; } >&2

# SQLite and Lua are compiled in, so a C compiler is needed; the demo compiles a program too.
need-cc:
	@command -v cc >/dev/null && exit 0; \
	if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no C compiler: installing one"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev; \
	else \
	  echo "A C compiler is needed. As root: apt-get install gcc libc6-dev" >&2; exit 1; \
	fi

# Tests of parallel programs build them with both MPIs and with Slurm's library of PMI-2.
# Without them those tests say that they were skipped.
MPI := mpich libmpich-dev openmpi-bin libopenmpi-dev libpmix2 libpmi2-0-dev
need-mpi:
	@if [[ $$(id -u) == 0 ]] && command -v dpkg >/dev/null && ! dpkg -s $(MPI) >/dev/null 2>&1; then \
	  echo "some of $(MPI) are not there: installing them"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends $(MPI); } || true; \
	fi

# Several controllers share a PostgreSQL database: tests start servers of their own. Without it they say
# that they were skipped.
need-postgres:
	@if [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  echo "no PostgreSQL server: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends postgresql; } || true; \
	fi

# Tools written for Slurm are tried as their packages install them. Without a Python that
# makes environments those tests say that they were skipped.
need-python:
	@if ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1 && [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no Python that makes environments: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends python3 python3-venv; } || true; \
	fi

# The web page is tried in a browser. Without one that test says that it was skipped.
need-browser:
	@wanted=""; \
	command -v chromium >/dev/null || wanted="chromium fonts-dejavu-core"; \
	command -v node >/dev/null || wanted="$$wanted nodejs"; \
	command -v npm >/dev/null || wanted="$$wanted npm"; \
	if [[ -n "$$wanted" && $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no$${wanted:+ }$$wanted: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends $$wanted; } || true; \
	fi

# Users log in on nodes through a real sshd, which tests start themselves, in namespaces of their own. Without it
# they say that they were skipped. The system's own is neither started nor, where it was not there, left to be.
LOGIN := pamtester openssh-server openssh-client
need-login:
	@if [[ $$(id -u) == 0 ]] && command -v dpkg >/dev/null && ! dpkg -s $(LOGIN) >/dev/null 2>&1; then \
	  echo "some of $(LOGIN) are not there: installing them"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  policy=/usr/sbin/policy-rc.d; fresh=$$([[ -e /usr/sbin/sshd ]] || echo yes); mine=$$([[ -e $$policy ]] || echo yes); \
	  [[ -z $$mine ]] || { printf '#!/bin/sh\nexit 101\n' > $$policy; chmod 755 $$policy; }; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends $(LOGIN); } || true; \
	  [[ -z $$fresh ]] || systemctl disable -q ssh.service ssh.socket 2>/dev/null || true; \
	  [[ -z $$mine ]] || rm -f $$policy; \
	fi

# Jobs in containers are tried with podman and crun as any user has them. Without them those tests say that
# they were skipped.
need-containers:
	@wanted=""; \
	for tool in podman crun; do command -v $$tool >/dev/null || wanted="$$wanted $$tool"; done; \
	{ [[ -x /bin/busybox ]] && ! ldd /bin/busybox >/dev/null 2>&1; } || wanted="$$wanted busybox-static"; \
	if [[ -n "$$wanted" && $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no$$wanted: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends $$wanted; } || true; \
	fi

need-fmt: need-cargo
	@for part in fmt clippy; do \
	  cargo $$part --version >/dev/null 2>&1 && continue; \
	  name=$${part/fmt/rustfmt}; \
	  command -v rustup >/dev/null || { echo "cargo $$part is needed (component $$name)" >&2; exit 1; }; \
	  rustup component add $$name; \
	done

# --- build, try, check

# The commands are linked statically where the system's C library can be: starting one
# then takes a quarter less CPU (docs/BENCHMARKS.md).
STATIC := -C target-feature=+crt-static -C relocation-model=static

build: need-cargo need-cc
	cargo build --release $(CARGO_FLAGS) -p cosyd -p noded -p cosy-web -p cosy-sim -p cosy-lua -p cosy-pam
	cargo rustc --release $(CARGO_FLAGS) -p cosy --bin cosy -- $(STATIC) \
	  || cargo build --release $(CARGO_FLAGS) -p cosy

demo: build
	@"$(RELEASE)/cosy" dev --nodes 4 --cores 2 -- demo/demo.sh

# The runner's own closing lines come last.
test: need-cargo need-cc need-mpi need-postgres need-python need-browser need-login need-containers
	cargo build $(CARGO_FLAGS) --workspace --bins --lib
	@export COSY_SKIPPED="$(abspath $(TARGET))/skipped-tests"; rm -f "$$COSY_SKIPPED"; \
	trap 'test ! -s "$$COSY_SKIPPED" || { echo "tests that showed nothing on this machine, or not all:"; sort -u "$$COSY_SKIPPED"; }' EXIT; \
	if cargo nextest --version >/dev/null 2>&1; then \
	  set -x; \
	  cargo test -q $(CARGO_FLAGS) --workspace --doc; \
	  cargo nextest run $(CARGO_FLAGS) --workspace --max-fail 30; \
	else \
	  set -x; \
	  cargo test $(CARGO_FLAGS) --workspace --no-fail-fast; \
	fi

# Jobs, restarts of noded and a reboot on a machine with systemd and control groups of version 2.
# RUN SCRIPT FOLDER boots one that may be thrown away, with FOLDER at /share, runs SCRIPT there
# as root, again with VM_BOOT=2 after the reboot that exit code 194 asks for, and gives its exit
# code. Nothing here makes machines.
RUN ?=
test-machines: need-cargo need-cc
	@if [[ -z "$(RUN)" ]]; then \
	  echo "no machine was tested: RUN='COMMAND ...' is to boot one (tests/machines/node.sh tells what it needs)" >&2; exit 2; \
	fi
	cargo build $(CARGO_FLAGS) -p cosyd -p noded -p cosy -p cosy-web --bins
	@share=$$(mktemp -d); trap 'rm -rf "$$share"' EXIT; mkdir "$$share/bin"; cp -R systemd etc/web.toml "$$share"; \
	for p in cosyd noded cosy cosy-web; do strip -o "$$share/bin/$$p" "$(TARGET)/debug/$$p"; done; \
	$(RUN) tests/machines/node.sh "$$share"

SCRIPTS := .ci/run $(wildcard demo/*.sh demo/*.job tests/bench/*.sh tests/machines/*.sh) crates/plugin/tests/job crates/plugin/tests/cosy \
  $(shell grep -rlI '^#!/bin/sh' plugins)

lint: formatting clippy doc-comments shellcheck

formatting: need-fmt
	cargo fmt --all --check

clippy: need-fmt need-cc
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

# Links in doc comments lead somewhere: a name that was changed is found here.
doc-comments: need-cc
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
	  cargo doc $(CARGO_FLAGS) --workspace --no-deps --quiet

shellcheck:
	@if ! command -v shellcheck >/dev/null && [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no shellcheck: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends shellcheck; } || true; \
	fi
	@if command -v shellcheck >/dev/null; then \
	  echo shellcheck $(SCRIPTS); shellcheck $(SCRIPTS); \
	else \
	  echo "shellcheck is not there: scripts were not checked"; \
	fi

# No nightly toolchain: RUSTC_BOOTSTRAP lets the stable one count branches for the fuzzer.
fuzz: export RUSTC_BOOTSTRAP = 1
fuzz: need-cargo need-cc
	@command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked
	@cd fuzz && cargo fuzz build --sanitizer none && for target in $(TARGETS); do \
	  mkdir -p corpus/$$target; \
	  cargo fuzz run --sanitizer none $$target corpus/$$target seeds/$$target -- \
	    -max_total_time=$(SECS) -timeout=10 -rss_limit_mb=2000 -max_len=8192; \
	done

# The fuzz targets still compile. Nothing is linked, so their runtime need not be built.
fuzz-check: export CUSTOM_LIBFUZZER_PATH = /nowhere/libfuzzer.a
fuzz-check: need-cargo need-cc
	cargo check $(CARGO_FLAGS) --manifest-path fuzz/Cargo.toml --target-dir "$(abspath $(TARGET))/fuzz-check"

# The example configurations, as they are and with every section and key that they only tell of.
examples: need-cargo need-cc
	@cargo build -q $(CARGO_FLAGS) -p cosyd -p noded -p cosy-web
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	for pair in cosyd:cosy noded:noded cosy-web:web; do \
	  file=etc/$${pair#*:}.toml; \
	  "$(TARGET)/debug/$${pair%:*}" --check --config $$file; \
	  sed -e 's/^#\([a-z_]* = \)/\1/' -e 's/^#\(\[.*\]\)$$/\1/' $$file > "$$work/$${file##*/}"; \
	  "$(TARGET)/debug/$${pair%:*}" --check --config "$$work/$${file##*/}" >/dev/null; \
	done

bench: build
	cargo build --release $(CARGO_FLAGS) -p cosy-sched --example figures
	tests/bench/planner.sh "$(RELEASE)"
	cargo run --release $(CARGO_FLAGS) -p cosy-sim --example policy
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench -- $(ARGS)
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-reserve
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-large
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-large -- --nodes 10000 --jobs 60000
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-million
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-steps
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-node
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-slurm
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-adversary
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-adversary -- --memory 512
	cargo run --release $(CARGO_FLAGS) -p cosy-tests --bin cosy-bench-controllers

# Instructions of fixed pieces of work, the same on a busy machine, against those written down in
# tests/bench/counts.txt. WRITE=--write writes them down anew.
WRITE ?=
bench-counts: export CARGO_PROFILE_RELEASE_LTO = off
bench-counts: export CARGO_PROFILE_RELEASE_STRIP = none
bench-counts: need-cargo need-cc
	@if ! command -v valgrind >/dev/null && [[ $$(id -u) == 0 ]] && command -v apt-get >/dev/null; then \
	  echo "no valgrind: installing it"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  { apt-get update -q && apt-get install -y -q --no-install-recommends valgrind; } || true; \
	fi
	cargo build --release $(CARGO_FLAGS) --target-dir "$(abspath $(TARGET))/counts" -p cosy-sim -p cosyd --example counts --example store_counts
	tests/bench/counts.sh tests/bench/counts.txt $(WRITE) "$(TARGET)"/counts/release/examples/{counts,store_counts}

# --- install

# Does not build when the programs are there, so that 'sudo make install' needs no cargo.
install:
	@for p in $(PROGRAMS) cosy-lua; do \
	  [[ -x "$(RELEASE)/$$p" ]] || { echo "$$p is not built: run 'make build' first" >&2; exit 1; }; \
	done
	[[ -f "$(RELEASE)/libpam_cosy.so" ]] || { echo "pam_cosy.so is not built: run 'make build' first" >&2; exit 1; }
	install -d "$(DESTDIR)$(PAMDIR)"
	install -m 644 "$(RELEASE)/libpam_cosy.so" "$(DESTDIR)$(PAMDIR)/pam_cosy.so"
	install -d "$(BIN)" "$(UNITS)" "$(SYSUSERS)" "$(DOC)/pictures" "$(DOC)/policies" "$(MAN)" "$(MAN8)"
	install -d "$(BASH_COMPLETIONS)" "$(ZSH_COMPLETIONS)" "$(FISH_COMPLETIONS)"
	for p in $(PROGRAMS); do install -m 755 "$(RELEASE)/$$p" "$(BIN)/$$p"; done
	for n in $(NAMES); do ln -sf cosy "$(BIN)/$$n"; done
	install -d "$(LIBEXEC)/slurm"
	install -m 755 "$(RELEASE)/cosy-lua" "$(LIBEXEC)/cosy-lua"
	for n in cosy $(NAMES) $(SLURM_NAMES); do ln -sf "$(PREFIX)/bin/cosy" "$(LIBEXEC)/slurm/$$n"; done
	@there=$$(command -v sbatch || true); \
	if [[ "$(SLURM)" == no ]]; then \
	  echo "Slurm's names are in $(PREFIX)/libexec/cosy/slurm only"; \
	elif [[ "$(SLURM)" == auto && -n "$(DESTDIR)" ]]; then \
	  echo "with DESTDIR nobody knows which sbatch is there: Slurm's names are in $(PREFIX)/libexec/cosy/slurm only (SLURM=yes: in $(PREFIX)/bin too)"; \
	elif [[ "$(SLURM)" == auto && -n $$there && $$(readlink -f "$$there") != */cosy ]]; then \
	  echo "$$there is another Slurm's: Slurm's names are in $(PREFIX)/libexec/cosy/slurm only (SLURM=yes: in $(PREFIX)/bin too)"; \
	else \
	  for n in $(SLURM_NAMES); do ln -sf cosy "$(BIN)/$$n"; done; \
	fi
	for u in cosyd.service noded.service cosy-jobs.service cosy-web.service cosy.slice; do \
	  sed 's|/usr/local/bin/|$(PREFIX)/bin/|g' systemd/$$u > "$(UNITS)/$$u"; \
	  chmod 644 "$(UNITS)/$$u"; \
	done
	install -m 644 systemd/cosy.sysusers "$(SYSUSERS)/cosy.conf"
	install -m 644 etc/cosy.toml etc/noded.toml etc/web.toml etc/clusters.toml README.md CHANGELOG.md LICENSE docs/*.md "$(DOC)"
	install -d "$(PLUGINS)"
	cp -R plugins/. "$(PLUGINS)"
	chmod -R u=rwX,go=rX "$(PLUGINS)"
	install -m 644 docs/man/*.8 "$(MAN8)"
	install -m 644 docs/pictures/*.svg docs/pictures/*.png "$(DOC)/pictures"
	install -m 644 etc/policies/*.toml "$(DOC)/policies"
	install -d "$(DOC)/flows"
	install -m 644 etc/flows/* "$(DOC)/flows"
	work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	"$(RELEASE)/cosy" generate man "$$work/man"; \
	"$(RELEASE)/cosy" generate completions "$$work/completions"; \
	"$(RELEASE)/cosy-sim" pages man "$$work/man"; \
	"$(RELEASE)/cosy-sim" pages completions "$$work/completions"; \
	install -m 644 "$$work"/man/*.1 "$(MAN)"; \
	for f in "$$work"/completions/bash/*.bash; do \
	  name=$${f##*/}; install -m 644 "$$f" "$(BASH_COMPLETIONS)/$${name%.bash}"; \
	done; \
	install -m 644 "$$work"/completions/zsh/_* "$(ZSH_COMPLETIONS)"; \
	install -m 644 "$$work"/completions/fish/*.fish "$(FISH_COMPLETIONS)"; \
	if [[ -e "$(BIN)/sbatch" && $$(readlink "$(BIN)/sbatch") == cosy ]]; then \
	  for f in "$$work"/completions/slurm/bash/*.bash; do \
	    name=$${f##*/}; install -m 644 "$$f" "$(BASH_COMPLETIONS)/$${name%.bash}"; \
	  done; \
	  install -m 644 "$$work"/completions/slurm/zsh/_* "$(ZSH_COMPLETIONS)"; \
	  install -m 644 "$$work"/completions/slurm/fish/*.fish "$(FISH_COMPLETIONS)"; \
	fi

uninstall:
	for p in $(PROGRAMS) $(NAMES); do rm -f "$(BIN)/$$p"; done
	for n in $(SLURM_NAMES); do [[ $$(readlink "$(BIN)/$$n") != cosy ]] || rm -f "$(BIN)/$$n"; done
	rm -rf "$(LIBEXEC)"
	rm -f "$(DESTDIR)$(PAMDIR)/pam_cosy.so"
	rm -f "$(UNITS)"/{cosyd,noded,cosy-jobs,cosy-web}.service "$(UNITS)/cosy.slice" "$(SYSUSERS)/cosy.conf"
	rm -f "$(MAN8)/cosyd.8" "$(MAN8)/noded.8" "$(MAN8)/cosy-web.8" "$(MAN8)/pam_cosy.8"
	rm -rf "$(DOC)" "$(PLUGINS)"
	rmdir "$(dir $(PLUGINS))" 2>/dev/null || true
	for n in cosy cosy-sim $(NAMES); do \
	  rm -f "$(MAN)/$$n.1" "$(MAN)/$$n"-*.1 "$(BASH_COMPLETIONS)/$$n" "$(ZSH_COMPLETIONS)/_$$n" "$(FISH_COMPLETIONS)/$$n.fish"; \
	done
	for n in $(SLURM_NAMES); do \
	  ! grep -qs __complete "$(BASH_COMPLETIONS)/$$n" || rm -f "$(BASH_COMPLETIONS)/$$n"; \
	  ! grep -qs __cosy_complete "$(FISH_COMPLETIONS)/$$n.fish" || rm -f "$(FISH_COMPLETIONS)/$$n.fish"; \
	done
	rm -f "$(ZSH_COMPLETIONS)/_cosy_slurm"

clean: need-cargo
	cargo clean
