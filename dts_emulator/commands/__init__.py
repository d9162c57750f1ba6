"""The commands that the laboratory adds to ``dts-assets``."""
