package codegen

// Generate returns the files of one server, ordered by path.
func Generate(s Server) []File { return generate(withModuleNames([]Server{s})[0], nil) }
