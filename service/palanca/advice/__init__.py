"""From findings and facts to recommendations. Pure."""
