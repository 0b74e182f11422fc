package clientconfig

// Find reads the configuration of all clients. Entries of project files are
// imported only if project is true, and only those of env.Dir.
func Find(env Env, project bool) Found {
	f := Found{Clients: installed(env)}
	var all []Server
	for _, file := range files(env) {
		entries, problem := file.entries(env)
		if problem != nil {
			f.Problems = append(f.Problems, *problem)
		}
		for _, e := range entries {
			s, reason := e.server(env, project)
			if reason != "" {
				f.Skipped = append(f.Skipped, Skipped{e.from, reason})
				continue
			}
			all = append(all, s)
		}
	}
	f.Servers = merge(env, all)
	f.Variables = redact(env, f.Servers)
	return f
}
