"""The demonstration's profiles, as files."""
