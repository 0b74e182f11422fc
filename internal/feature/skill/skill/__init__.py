"""Python of the feature skill, which runs in checks of code: it adds nothing to code."""
