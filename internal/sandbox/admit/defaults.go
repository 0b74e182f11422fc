package admit

// WithDefaults fills the zero fields, for who compares one Config with another.
func (c Config) WithDefaults() Config { return c.withDefaults() }
