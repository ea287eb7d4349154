.PHONY: test
# Runs every test. Ends in a summary and fails on any failure.
test:
	cargo test --locked
