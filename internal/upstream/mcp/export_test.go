package mcp

// PlainTexts is for the tests of what a listing keeps of schemas.
var SanitizeTexts = sanitizeTexts
