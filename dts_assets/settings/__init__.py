"""pipeline.yaml as frozen models; the only reader of the environment."""
