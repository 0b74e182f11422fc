package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
)

// npmArch are the architectures as Node.js names them.
var npmArch = map[string]string{"amd64": "x64", "arm64": "arm64"}

// writeNPM writes the package sandpiper-mcp, and one with the program for each architecture,
// of which npm installs the one that fits.
func writeNPM(_ context.Context, r *release) error {
	platforms := map[string]string{}
	for _, t := range linux {
		name := "sandpiper-mcp-linux-" + npmArch[t.arch]
		platforms[name] = r.version
		err := r.writeNPMPackage(map[string]any{"name": name, "os": []string{"linux"}, "cpu": []string{npmArch[t.arch]},
			"libc": []string{"glibc"}},
			file{name: "bin/sandpiper", path: r.programs[t], mode: 0o755})
		if err != nil {
			return err
		}
	}
	return r.writeNPMPackage(map[string]any{
		"name": "sandpiper-mcp", "bin": map[string]string{"sandpiper-mcp": "bin/sandpiper-mcp.js", "sandpiper": "bin/sandpiper-mcp.js"},
		"engines": map[string]string{"node": ">=18"}, "optionalDependencies": platforms,
	}, file{name: "bin/sandpiper-mcp.js", path: filepath.Join(r.root, "scripts/release/npm/sandpiper-mcp.js"), mode: 0o755})
}

func (r *release) writeNPMPackage(manifest map[string]any, program file) error {
	for key, value := range map[string]string{"version": r.version, "description": summary, "license": "MIT", "homepage": homepage} {
		manifest[key] = value
	}
	manifest["repository"] = map[string]string{"type": "git", "url": "git+" + homepage + ".git"}
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	files := []file{
		{name: "package.json", content: string(text) + "\n", mode: 0o644},
		{name: "LICENSE", path: filepath.Join(r.root, "LICENSE"), mode: 0o644},
		{name: "NOTICES", path: r.notices, mode: 0o644},
		{name: "README.md", path: filepath.Join(r.root, "README.md"), mode: 0o644},
		program,
	}
	for i := range files {
		files[i].name = "package/" + files[i].name
	}
	return writeTarGz(filepath.Join(r.dir, fmt.Sprintf("%s-%s.tgz", manifest["name"], r.version)), r.time, files)
}
