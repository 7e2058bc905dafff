"""Where samples come from: recordings, Prometheus, vLLM itself."""
