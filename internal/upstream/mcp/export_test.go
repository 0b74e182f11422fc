package mcp

// PlainTexts is exported for tests.
var SanitizeTexts = sanitizeTexts
