package workflow

import _ "embed"

// Schema is the JSON schema of workflow files, for editors. Parse is stricter: it also checks
// references between steps.
//
//go:embed schema.json
var Schema string
