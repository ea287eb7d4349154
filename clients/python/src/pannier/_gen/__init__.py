"""Messages and stubs, generated from `proto/` by generate.py."""
