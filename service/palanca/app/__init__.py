"""The composition root: settings become a plan, a plan a running service, and that is served."""
