package clientconfig

import "github.com/sandpiper-mcp/sandpiper/internal/config/literal"

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

// redact replaces the secrets of servers by references and returns all variables that the servers
// then reference.
func redact(env Env, servers []Server) []literal.Variable {
	all := make([]literal.Server, len(servers))
	for i, s := range servers {
		all[i] = literal.Server{
			Name:    s.Name,
			File:    s.From[0].File.Path,
			Command: s.Command,
			Args:    s.Args,
			Env:     s.Env,
			URL:     s.URL,
			Headers: s.Headers,
			Inputs:  map[string]string{},
		}
		for _, in := range s.inputs {
			if all[i].Inputs[in.id] == "" {
				all[i].Inputs[in.id] = in.description
			}
		}
	}
	variables := literal.Redact(env.Lookup, all)
	for i, s := range all { // the lists and tables are shared
		servers[i].Command, servers[i].URL = s.Command, s.URL
	}
	return variables
}
