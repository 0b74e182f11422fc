package config

// Search configures the search of tools.
type Search struct {
	Learn bool `key:"learn" default:"true"` // rank tools higher that the tenant has used
}
