"""What ``palanca doctor`` looks at: pure functions from evidence to checks, one each; the table is in ``doctor``."""
