"""Pure decisions: offsets of a window, closing, staleness, the cut and the frontier. No input, no output."""
