package mcp

// SanitizeTexts is exported for tests.
var SanitizeTexts = sanitizeTexts
