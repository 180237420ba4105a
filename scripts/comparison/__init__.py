"""The studies of scripts/compare-upstream."""
