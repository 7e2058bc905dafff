"""What ``palanca alerts check`` looks at: one function a check; the table is ``palanca.linting.table``."""
