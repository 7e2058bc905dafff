"""The matrix as files for Prometheus: recorded signals, alerts, their tests, and the object of the operator. Pure."""
