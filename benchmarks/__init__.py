"""Where performance figures come from: ``python -m benchmarks.NAME`` each, with the peers they are compared to."""
