"""Saved skills. Each is a module: from skills import NAME."""
