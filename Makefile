# The commands of this project. `make` alone lists them.

CLIENT := clients/ts
PEERS := tests/baileys
WWEBJS := tests/wwebjs
EXAMPLES := tests/examples $(patsubst %/package-lock.json,%,$(wildcard examples/*/package-lock.json))
NODE_MODULES := $(addsuffix /node_modules,$(CLIENT) $(PEERS) $(WWEBJS) $(EXAMPLES))
PYTHON_CLIENT := clients/python
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help run demo test test-quick bench bench-sessions bench-blobs bench-calls bench-schedule bench-fleet clients typescript lint reference docs soak audit sbom static reproduce

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 17

run: ## build, find or install a Valkey, and serve (ARGS="--socket …")
	cargo build --locked --release
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" exec $(TARGET)/release/pannier serve $(ARGS)

demo: typescript $(PEERS)/node_modules ## a real Baileys bot while the sidecar is killed, and one whose store is set back
	cargo build --locked --release
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" PANNIER_BIN="$(abspath $(TARGET))/release/pannier" npm --prefix $(PEERS) run --silent demo

test: ## everything, ends in a summary
	scripts/test all

test-quick: ## what needs no waiting, in three minutes
	scripts/test quick

soak: ## the long drills at full count
	PANNIER_SOAK=1 scripts/test all

bench: bench-sessions bench-blobs bench-calls bench-schedule bench-fleet ## every benchmark; numbers and how they were made: docs/benchmarks.md

bench-sessions: typescript $(PEERS)/node_modules ## traces of Baileys through Pannier and what it replaces (ARGS="--trace day-medium …")
	cargo build --locked --release
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" PANNIER_BIN="$(abspath $(TARGET))/release/pannier" npm --prefix $(PEERS) run bench -- $(ARGS)

bench-blobs: ## blobs beside a file copy, and session reads beside a transfer
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" cargo test --locked --release --bench blobs -- --nocapture --test-threads=1

bench-calls: typescript ## claims, conversations and caps beside what one writes with ioredis
	cargo build --locked --release
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" PANNIER_BIN="$(abspath $(TARGET))/release/pannier" node $(CLIENT)/bench/calls/main.mjs $(ARGS)
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" cargo test --locked --release --bench pipe --bench observe -- --nocapture --test-threads=1

bench-schedule: typescript ## jobs and workers beside BullMQ
	cargo build --locked --release
	PANNIER_VALKEY_SERVER="$$(scripts/valkey)" PANNIER_BIN="$(abspath $(TARGET))/release/pannier" node $(CLIENT)/bench/schedule/main.mjs --recovery $(ARGS)

bench-fleet: ## 10 000 attached sessions, and ten times too many calls: memory, CPU, latency
	PANNIER_SOAK=1 PANNIER_VALKEY_SERVER="$$(scripts/valkey)" cargo test --locked --test session_fleet --test overload -- --nocapture --test-threads=1

clients: $(CLIENT)/node_modules ## generate the clients' code from proto/, and build their packages
	npm --prefix $(CLIENT) run --silent generate
	npm --prefix $(CLIENT) run --silent build
	cd $(PYTHON_CLIENT) && "$$(../../scripts/python)" generate.py
	cd $(PYTHON_CLIENT) && "$$(../../scripts/python)" -m build --no-isolation --outdir dist .

typescript: $(CLIENT)/node_modules
	npm --prefix $(CLIENT) run --silent build

lint: $(NODE_MODULES) ## formats, clippy, licences, protos, TypeScript, Python
	scripts/lint

audit: ## known vulnerabilities in what is depended on; loud about what cannot be asked
	scripts/audit

sbom: ## what the binary is made of, as CycloneDX, in target/pannier.cdx.json
	mkdir -p $(TARGET)
	scripts/sbom > $(TARGET)/pannier.cdx.json

static: ## a release binary without shared libraries (needs musl-gcc and rustup's musl target)
	scripts/static

reproduce: ## build the release twice, in two places, and compare the binaries (ten minutes and more)
	scripts/reproduce

reference: $(CLIENT)/node_modules ## the API reference of the TypeScript client, in clients/ts/reference
	npm --prefix $(CLIENT) run --silent reference

docs: ## write docs/configuration.md, and the metrics in docs/operations.md, from the tables in the code
	PANNIER_UPDATE_DOCS=1 cargo test --locked --test config the_reference_is_current
	PANNIER_UPDATE_DOCS=1 cargo test --locked --test metrics the_documentation_has_the_list_as_it_is

$(NODE_MODULES): %/node_modules: %/package-lock.json
	PUPPETEER_SKIP_DOWNLOAD=1 npm --prefix $* ci --no-fund --no-audit --prefer-offline
	touch $@
