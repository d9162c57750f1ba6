"""The sources of performance figures: ``python -m benchmarks.NAME`` each, with the peers they are compared to."""
